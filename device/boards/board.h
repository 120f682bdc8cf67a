/* What the example asks of a board. */
#ifndef BOARD_H
#define BOARD_H

void board_write(const char* text);
void board_exit(int code);

#endif
