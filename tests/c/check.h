/* What every C test program shares: counting checks, drawing numbers. */
#ifndef MHC_TESTS_CHECK_H
#define MHC_TESTS_CHECK_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mhc_ops/mhc_ops.h"

static int passed, failed;

static void check(int good, const char *what, const char *where) {
    if (good) {
        passed++;
    } else {
        failed++;
        printf("FAILED %s: %s\n", where, what);
    }
}

static uint64_t state = 1;
static float uniform(void) { /* in [-1, 1) */
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(state >> 32) / 2147483648.0f;
}

#endif
