"""Results files: a TSV with one line per image, and beside it a JSON file with all that is needed to repeat the run.

The first columns are those of locuslab/smoothing, so that scripts written for it read ours; what follows keeps the
votes, so that nothing has to be sampled again. An abstention is -1 in the file and nowhere else. A line, once written,
is never changed: a run that was killed is resumed after its last whole line.
"""

from intrs.results.journal import Journal, Kept, NoJournal, journal_path, read_journal
from intrs.results.judging import (
    Judge,
    check_effort,
    check_file,
    check_once,
    check_rows,
    check_terms,
    difference,
    terms_of_line,
)
from intrs.results.merging import SAME_IN_PARTS, Merged, UnfinishedError, merge
from intrs.results.reading import ADAPTIVE_HEADER, HEADER, read
from intrs.results.rows import ADAPTIVE_COLUMNS, COLUMNS, FILE, Row, cell, integer
from intrs.results.run import (
    CLASSICAL,
    FORMAT,
    SAME,
    Run,
    differences,
    read_run,
    read_sidecar,
    sidecar_path,
    unequal,
    write_run,
)
from intrs.results.writing import Memory, Writer, create, extend, resume, set_aside, set_aside_path

__all__ = [
    "ADAPTIVE_COLUMNS",
    "ADAPTIVE_HEADER",
    "CLASSICAL",
    "COLUMNS",
    "FILE",
    "FORMAT",
    "HEADER",
    "SAME",
    "SAME_IN_PARTS",
    "Journal",
    "Judge",
    "Kept",
    "Memory",
    "Merged",
    "NoJournal",
    "Row",
    "Run",
    "UnfinishedError",
    "Writer",
    "cell",
    "check_effort",
    "check_file",
    "check_once",
    "check_rows",
    "check_terms",
    "create",
    "difference",
    "differences",
    "extend",
    "integer",
    "journal_path",
    "merge",
    "read",
    "read_journal",
    "read_run",
    "read_sidecar",
    "resume",
    "set_aside",
    "set_aside_path",
    "sidecar_path",
    "terms_of_line",
    "unequal",
    "write_run",
]
