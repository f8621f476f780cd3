"""The machine that we run on: what adaptors may ask of it, and what the evidence says of it."""
