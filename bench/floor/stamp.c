/*
 * Writes what CLOCK_MONOTONIC says to stderr, as its first act:
 *
 *     stamp: <nanoseconds>
 *
 * and executes the program that it is given, if any. Started in front of an engine and again in its container, it tells
 * how long the way from the one exec to the other is.
 */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define CANNOT_RUN 127

int main(int argc, char **argv)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    dprintf(STDERR_FILENO, "stamp: %lld\n", (long long)now.tv_sec * 1000000000LL + now.tv_nsec);
    if (argc < 2)
        return 0;
    execv(argv[1], argv + 1);
    return CANNOT_RUN;
}
