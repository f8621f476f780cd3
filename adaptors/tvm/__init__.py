"""Apache TVM: a compiler that finds schedules by measuring on this machine."""
