"""BladeDISC: TorchScript compiled for dynamic shapes, in an interpreter that the recipe names. Unmaintained."""
