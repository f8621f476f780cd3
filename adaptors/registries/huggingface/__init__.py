"""The registry of the Hugging Face Hub."""
