"""The gallery: public attention kernels before the judge, each with the claims that its package documents."""
