"""Images of winners by the specifications of the Open Container Initiative, written and pushed without Docker."""
