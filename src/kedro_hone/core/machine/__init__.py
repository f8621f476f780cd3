"""The machine that we run on: its properties for adaptors and for the evidence."""
