/*
 * Both ends of what `bench net` measures, in one static program:
 *
 *     talk serve PORT                  answers connections: HTTP with 200, bytes with themselves, a stream with one byte at its end
 *     talk ping ADDRESS PORT COUNT     sends a byte and waits for it, COUNT times
 *     talk pour ADDRESS PORT MEGABYTES sends so much and waits until it has arrived
 *     talk ask ADDRESS NAME COUNT      asks a server of DNS for the name's IPv4 address, COUNT times
 *     talk first PORT COMMAND...       starts the command, and asks 127.0.0.1:PORT by HTTP until it answers with 200
 *
 * All but the first write what CLOCK_MONOTONIC says to stderr when they begin to measure and when they end, as `stamp` does.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char OK[] = "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n";
static char bytes[1 << 16];

static int fail(const char *what)
{
    perror(what);
    return 1;
}

static void stamp(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    fprintf(stderr, "stamp: %lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
}

static void answer(int peer)
{
    ssize_t count = read(peer, bytes, 1);
    char kind = bytes[0];

    if (count != 1)
        return;
    if (kind == 'G') {
        count = read(peer, bytes, sizeof bytes);
        count = write(peer, OK, sizeof OK - 1);
        return;
    }
    while ((count = read(peer, bytes, kind == 'p' ? 1 : sizeof bytes)) > 0)
        if (kind == 'p' && write(peer, bytes, (size_t)count) != count)
            return;
    count = write(peer, bytes, 1);
}

static int serve(int port)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int listener = socket(AF_INET, SOCK_STREAM, 0), peer, yes = 1;

    signal(SIGCHLD, SIG_IGN);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&own, sizeof own) || listen(listener, 64))
        return fail("listen");
    while ((peer = accept(listener, 0, 0)) >= 0) {
        setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        if (fork() == 0) {
            answer(peer);
            _exit(0);
        }
        close(peer);
    }
    return fail("accept");
}

/* A connection; the server may need a moment until it listens. */
static int reach(const char *address, const char *port, int tries)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    struct timespec moment = {.tv_nsec = 200000};
    int yes = 1, end;

    if (inet_pton(AF_INET, address, &to.sin_addr) != 1)
        return -1;
    while (tries-- > 0) {
        end = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        if (connect(end, (struct sockaddr *)&to, sizeof to) == 0)
            return end;
        close(end);
        nanosleep(&moment, 0);
    }
    return -1;
}

static int ping(const char *address, const char *port, int count)
{
    int end = reach(address, port, 10000);

    if (end < 0 || write(end, "p", 1) != 1)
        return fail("connect");
    stamp();
    while (count-- > 0)
        if (write(end, "x", 1) != 1 || read(end, bytes, 1) != 1)
            return fail("talk");
    stamp();
    return 0;
}

static int pour(const char *address, const char *port, long megabytes)
{
    int end = reach(address, port, 10000);
    long left = megabytes * 1000000;

    if (end < 0 || write(end, "s", 1) != 1)
        return fail("connect");
    stamp();
    while (left > 0) {
        ssize_t sent = write(end, bytes, left < (long)sizeof bytes ? (size_t)left : sizeof bytes);
        if (sent < 0)
            return fail("send");
        left -= sent;
    }
    shutdown(end, SHUT_WR);
    if (read(end, bytes, 1) != 1)
        return fail("arrive");
    stamp();
    return 0;
}

static int ask(const char *address, const char *name, int count)
{
    static const unsigned char head[] = {0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, tail[] = {0, 0, 1, 0, 1};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(53)};
    int end = socket(AF_INET, SOCK_DGRAM, 0);
    size_t length = strlen(name), whole = sizeof head + 1 + length + sizeof tail;

    if (length > 63 || inet_pton(AF_INET, address, &to.sin_addr) != 1
        || connect(end, (struct sockaddr *)&to, sizeof to))
        return fail("connect");
    memcpy(bytes, head, sizeof head);
    bytes[sizeof head] = (char)length;
    memcpy(bytes + sizeof head + 1, name, length);
    memcpy(bytes + sizeof head + 1 + length, tail, sizeof tail);
    stamp();
    while (count-- > 0) {
        unsigned char reply[512];
        if (send(end, bytes, whole, 0) != (ssize_t)whole || recv(end, reply, sizeof reply, 0) < 12
            || (reply[3] & 15) || reply[7] == 0)
            return fail("answer");
    }
    stamp();
    return 0;
}

static int first(const char *port, char **command)
{
    static const char get[] = "GET / HTTP/1.0\r\n\r\n";
    int tries = 100000, status;
    pid_t child;

    stamp();
    child = fork();
    if (child == 0) {
        execvp(command[0], command);
        _exit(127);
    }
    while (tries-- > 0) {
        int end = reach("127.0.0.1", port, 100000);
        ssize_t count = -1;
        if (end >= 0 && write(end, get, sizeof get - 1) > 0)
            count = read(end, bytes, sizeof bytes);
        close(end);
        if (count > 12 && memcmp(bytes, OK, 12) == 0)
            break;
    }
    stamp();
    if (tries < 0 || waitpid(child, &status, 0) != child)
        return fail("first");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc == 3 && !strcmp(argv[1], "serve"))
        return serve(atoi(argv[2]));
    if (argc == 5 && !strcmp(argv[1], "ping"))
        return ping(argv[2], argv[3], atoi(argv[4]));
    if (argc == 5 && !strcmp(argv[1], "pour"))
        return pour(argv[2], argv[3], atol(argv[4]));
    if (argc == 5 && !strcmp(argv[1], "ask"))
        return ask(argv[2], argv[3], atoi(argv[4]));
    if (argc >= 4 && !strcmp(argv[1], "first"))
        return first(argv[2], argv + 3);
    fputs("talk: see the head of talk.c\n", stderr);
    return 2;
}
