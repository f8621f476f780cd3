"""The contract between kedro-hone and its plug-ins: adaptors, toolchains and registries."""
