/*
 * Runs a program one instruction at a time and writes where it has been: a line for each address of an instruction in
 * the program's own file, in the order in which it was first reached.
 *
 *     step [-f] OUT PROGRAM [ARGUMENT...]
 *
 * The program has to be at a fixed address. With -f the processes that it makes are followed until they execute another
 * program. Exits with the program's status, or 128 + signal.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* What is mapped from the file; libraries and stacks are far above. */
#define END 0x10000000UL
#define CANNOT_RUN 127

static unsigned char seen[END];

static void note(FILE *out, pid_t pid)
{
    struct user_regs_struct registers;

    if (ptrace(PTRACE_GETREGS, pid, 0, &registers) < 0)
        return;
    if (registers.rip >= END || seen[registers.rip])
        return;
    seen[registers.rip] = 1;
    fprintf(out, "%llx\n", registers.rip);
}

/* To be called with a process that has stopped. */
static void go_on(FILE *out, pid_t pid, pid_t first, int status)
{
    int event = status >> 16;
    int signal = WSTOPSIG(status);

    if (event == PTRACE_EVENT_EXEC && pid != first) {
        ptrace(PTRACE_DETACH, pid, 0, 0);
        return;
    }
    if (event == 0)
        note(out, pid);
    /* The ones are of the tracing, and the first of a new process. */
    if (signal == SIGTRAP || signal == SIGSTOP)
        signal = 0;
    ptrace(PTRACE_SINGLESTEP, pid, 0, signal);
}

int main(int argc, char **argv)
{
    long options = PTRACE_O_TRACEEXEC;
    int status;
    pid_t first, pid;
    FILE *out;

    if (argc > 1 && strcmp(argv[1], "-f") == 0) {
        options |= PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
        argv++;
        argc--;
    }
    if (argc < 3 || (out = fopen(argv[1], "we")) == NULL)
        return CANNOT_RUN;
    first = fork();
    if (first == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execv(argv[2], argv + 2);
        _exit(CANNOT_RUN);
    }
    if (first < 0 || waitpid(first, &status, 0) < 0 || !WIFSTOPPED(status))
        return CANNOT_RUN;
    ptrace(PTRACE_SETOPTIONS, first, 0, options);
    ptrace(PTRACE_SINGLESTEP, first, 0, 0);
    while ((pid = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR) {
        if (pid > 0 && WIFSTOPPED(status))
            go_on(out, pid, first, status);
        else if (pid == first)
            break;
    }
    if (fclose(out) != 0)
        return CANNOT_RUN;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
