/*
 * Runs a program and writes, as the last line on stderr, the largest resident set of any process in its tree that was
 * waited for:
 *
 *     peak: <KiB>
 *
 * Exits with the program's status, or 128 + signal. The kernel counts what a process occupied before its exec too, so
 * this one has to be smaller than anything it measures: hence C, static, and vfork.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CANNOT_RUN 127

int main(int argc, char **argv)
{
    struct rusage usage;
    int status;
    pid_t pid;

    if (argc < 2)
        return CANNOT_RUN;
    pid = vfork();
    if (pid == 0) {
        execv(argv[1], argv + 1);
        dprintf(STDERR_FILENO, "peak: exec %s: %s\n", argv[1], strerror(errno));
        _exit(CANNOT_RUN);
    }
    if (pid < 0)
        return CANNOT_RUN;
    while (wait4(pid, &status, 0, &usage) < 0)
        if (errno != EINTR)
            return CANNOT_RUN;
    dprintf(STDERR_FILENO, "peak: %ld\n", usage.ru_maxrss);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
