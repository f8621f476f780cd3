"""The environments of the toolchains: locked, built once, and shared by all projects of a user."""
