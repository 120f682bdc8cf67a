"""What a certification run found, in numbers, each with an interval for the sample of images.

Reads results files of intrs and logs of locuslab/smoothing and the programs that grew out of it (TSV, plain or .xz):
`read(path)` gives `Results`. docs/report.md says how each number is defined.
"""

from intrs.metrics.answers import Answer, Denominator, Results
from intrs.metrics.reading import check_comparable, join, read
from intrs.metrics.shares import Mean, Share

__all__ = ["Answer", "Denominator", "Mean", "Results", "Share", "check_comparable", "join", "read"]
