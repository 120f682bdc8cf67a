/* The example on a computer with an operating system. */
#include <stdio.h>
#include <stdlib.h>

#include "board.h"

void board_write(const char* text) {
  fputs(text, stdout);
  fflush(stdout);
}

void board_exit(int code) {
  exit(code);
}
