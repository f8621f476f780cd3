"""What starts workers and reads what they leave; runs in the process of ``kedro run``."""
