"""Training of integer networks under discrete noise.  PyTorch lives only here (and in ``intrs.pgd``)."""
