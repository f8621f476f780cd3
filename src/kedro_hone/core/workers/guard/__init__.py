"""The guard, which watches and isolates one worker; a process of its own, with the standard library only."""
