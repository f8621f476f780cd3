"""Apache TVM: a compiler whose schedules are found by measuring on this machine."""
