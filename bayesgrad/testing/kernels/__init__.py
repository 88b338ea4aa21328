"""The judge of attention kernels: what may be declared, the truth with its bounds, the questions, and the verdict."""
