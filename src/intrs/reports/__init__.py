"""What a run found, to look at: one self-contained page, and figures for papers."""
