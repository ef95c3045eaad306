/* Writes syndromes.bin: both syndromes as ISA-L computes them, P then Q, of data that follow from a linear congruence.
 *
 *     cc syndromes.c -lisal -o syndromes && ./syndromes > syndromes.bin
 */
#include <isa-l.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static const int cases[][2] = {{3, 64}, {4, 512}, {5, 96}, {16, 256}, {40, 320}};

int main(void) {
  uint64_t state = 1;
  for (size_t at = 0; at < sizeof cases / sizeof *cases; at++) {
    int strips = cases[at][0], length = cases[at][1];
    void *rows[64];
    for (int row = 0; row < strips + 2; row++) {
      if (posix_memalign(&rows[row], 64, length)) return 1;
    }
    for (int row = 0; row < strips; row++) {
      for (int byte = 0; byte < length; byte++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        ((uint8_t *)rows[row])[byte] = state >> 56;
      }
    }
    if (pq_gen(strips + 2, length, rows)) return 1;
    fwrite(rows[strips], 1, length, stdout);
    fwrite(rows[strips + 1], 1, length, stdout);
  }
  return 0;
}
