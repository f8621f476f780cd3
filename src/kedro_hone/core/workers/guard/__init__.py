"""What watches and isolates one worker; runs in a process of its own, with the standard library only."""
