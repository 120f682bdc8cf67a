/* What a project may set. `intrs export --target c` writes a file of this name with the network's own numbers. */
#ifndef INTRS_CONFIG_H
#define INTRS_CONFIG_H

/* Classes of the largest network that is opened: every run holds a count per class. */
#ifndef INTRS_MOST_CLASSES
#define INTRS_MOST_CLASSES 64
#endif

/* 0 leaves the code of Winograd's tiles out: about 1.5 kB. A network that wants them is refused then. */
#ifndef INTRS_WITH_TILES
#define INTRS_WITH_TILES 1
#endif

#endif
