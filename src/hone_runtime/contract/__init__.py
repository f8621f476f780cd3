"""The contract between kedro-hone and what is plugged into it: adaptors, toolchains and registries."""
