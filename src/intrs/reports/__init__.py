"""What a run found, to look at: one self-contained page (`report`), and figures for papers (`plot`)."""

from intrs.reports.write import Page, Plot, plot, report

__all__ = ["Page", "Plot", "plot", "report"]
