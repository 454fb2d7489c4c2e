/* What a shell cannot do: `probe NAME [ARGUMENT]`, run inside a container. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

static int held; /* Number of files that `hold` has locked. */

/* The classic escape from a chroot: keep a descriptor outside a deeper root, climb from it, and make that the root. */
static int escape(const char *canary)
{
	int outside = open(".", O_RDONLY | O_DIRECTORY);

	mkdir("/tmp/deeper", 0755);
	if (outside < 0 || chroot("/tmp/deeper") != 0 || fchdir(outside) != 0) {
		printf("stopped: %s\n", strerror(errno));
		return 0;
	}
	for (int i = 0; i < 1000; i++)
		if (chdir("..") != 0)
			break;
	if (chroot(".") != 0) {
		printf("stopped: %s\n", strerror(errno));
		return 0;
	}
	puts(access(canary, F_OK) == 0 ? "escaped" : "still inside");
	return 0;
}

/* Makes one call that a container may not make, and prints how it went. */
static int call(const char *name)
{
	long result;

	errno = 0;
	if (strcmp(name, "keyctl") == 0)
		result = syscall(SYS_keyctl, 0 /* KEYCTL_GET_KEYRING_ID */, -3, 0);
	else if (strcmp(name, "mount") == 0)
		result = mount("none", "/mnt", "tmpfs", 0, NULL);
	else if (strcmp(name, "unshare") == 0)
		result = unshare(CLONE_NEWUSER);
	else if (strcmp(name, "reboot") == 0)
		result = syscall(SYS_reboot, 0, 0, 0, NULL);
	else if (strcmp(name, "bpf") == 0)
		result = syscall(SYS_bpf, 0, NULL, 0);
	else
		return 2;
	printf("%s\n", result >= 0 ? "allowed" : strerrorname_np(errno));
	return 0;
}

/* Does to a file what a shell cannot. */
static int file(const char *what, const char *path)
{
	if (strcmp(what, "mmap") == 0) {
		int fd = open(path, O_RDWR);
		char *page = mmap(NULL, 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		if (page == MAP_FAILED)
			return perror("mmap"), 1;
		memcpy(page, "MMAP", 4);
		return msync(page, 4, MS_SYNC) == 0 ? 0 : 1;
	}
	if (strcmp(what, "tmpfile") == 0) {
		char name[64];
		int fd = open(".", O_TMPFILE | O_RDWR, 0644);

		if (fd < 0 || write(fd, "nameless\n", 9) != 9)
			return perror("O_TMPFILE"), 1;
		snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
		if (linkat(AT_FDCWD, name, AT_FDCWD, path, AT_SYMLINK_FOLLOW) != 0)
			return perror("linkat"), 1;
		return 0;
	}
	if (strcmp(what, "setxattr") == 0)
		return setxattr(path, "user.e2e", "value", 5, 0) == 0 ? 0 : (perror("setxattr"), 1);
	if (strcmp(what, "getxattr") == 0) {
		char value[16] = "";

		if (getxattr(path, "user.e2e", value, sizeof value - 1) < 0)
			return perror("getxattr"), 1;
		puts(value);
		return 0;
	}
	return 2;
}

/* As sd_notify(3): tells whoever started this service. */
static int notify(const char *text)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

	if (path == NULL)
		return puts("no NOTIFY_SOCKET"), 1;
	strncpy(address.sun_path, path, sizeof address.sun_path - 1);
	if (sendto(fd, text, strlen(text), 0, (struct sockaddr *)&address, sizeof address) < 0)
		return perror(path), 1;
	return 0;
}

/* Asks a server at a Unix socket, and prints its answer. */
static int ask(const char *path, const char *question)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	char answer[64] = "";

	strncpy(address.sun_path, path, sizeof address.sun_path - 1);
	if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
		return perror(path), 1;
	if (write(fd, question, strlen(question)) < 0 || shutdown(fd, SHUT_WR) < 0 ||
	    read(fd, answer, sizeof answer - 1) <= 0)
		return puts("connected, no answer"), 0;
	puts(answer);
	return 0;
}

/* As a service of socket activation: says what it was handed to whoever connects to descriptor 3. */
static int serve(void)
{
	const char *own = getenv("LISTEN_PID"), *names = getenv("LISTEN_FDNAMES"), *fds = getenv("LISTEN_FDS");
	char text[256], open[64] = "";
	int client = accept(3, NULL, NULL);

	if (client < 0)
		return perror("accept"), 1;
	for (int fd = 3; fd < 64; fd++)
		if (fd != client && fcntl(fd, F_GETFD) != -1)
			snprintf(open + strlen(open), sizeof open - strlen(open), " %d", fd);
	snprintf(text, sizeof text, "fds=%s mine=%s names=%s open=%s\n", fds ? fds : "",
		 own && atoi(own) == getpid() ? "yes" : "no", names ? names : "", open);
	if (write(client, text, strlen(text)) < 0)
		return perror("write"), 1;
	return 0;
}

/* Directories in one another, from here on. */
static int deep(int levels)
{
	for (int level = 0; level < levels; level++)
		if (mkdir("d", 0755) != 0 || chdir("d") != 0)
			return perror("d"), 1;
	return 0;
}

/* The set of capabilities in a status file, as a number; all of them where it cannot be read. */
static unsigned long long permitted(const char *pid)
{
	char path[64], line[256];
	unsigned long long set = 0;
	FILE *status;

	snprintf(path, sizeof path, "/proc/%s/status", pid);
	status = fopen(path, "r");
	while (status && fgets(line, sizeof line, status))
		if (sscanf(line, "CapPrm: %llx", &set) == 1)
			break;
	if (status)
		fclose(status);
	return set;
}

/* Looks at one process until it is gone, for what this container has not. */
static void look(int pid, const char *canary)
{
	unsigned long long own = permitted("self"), its;
	char path[300], name[16], link[300], text[4096];
	long length;
	DIR *fds;

	snprintf(name, sizeof name, "%d", pid);
	printf("seen %d\n", pid);
	while (kill(pid, 0) == 0) {
		snprintf(path, sizeof path, "/proc/%d/root%s", pid, canary);
		if (access(path, F_OK) == 0)
			printf("ROOT of the host in %d\n", pid);
		its = permitted(name);
		if (its & ~own)
			printf("RIGHTS %llx in %d\n", its, pid);
		snprintf(path, sizeof path, "/proc/%d/environ", pid);
		int file = open(path, O_RDONLY);
		length = file < 0 ? 0 : read(file, text, sizeof text);
		if (length > 0 && memmem(text, length, "HOST_CANARY", 11))
			printf("ENVIRONMENT in %d\n", pid);
		close(file);
		snprintf(path, sizeof path, "/proc/%d/fd", pid);
		fds = opendir(path);
		for (struct dirent *fd; fds && (fd = readdir(fds));) {
			snprintf(path, sizeof path, "/proc/%d/fd/%s", pid, fd->d_name);
			length = readlink(path, link, sizeof link - 1);
			link[length > 0 ? length : 0] = 0;
			if (strstr(link, "cgroup") || strstr(link, "tasks") || strstr(link, "pidfd") ||
			    strstr(link, "state") || strstr(link, "mnt:"))
				printf("DESCRIPTOR %s in %d\n", link, pid);
		}
		if (fds)
			closedir(fds);
	}
}

/* Waits for a process that is newer than that one. */
static int next(int last)
{
	for (DIR *proc = opendir("/proc"); proc; rewinddir(proc))
		for (struct dirent *entry; (entry = readdir(proc));)
			if (atoi(entry->d_name) > last) {
				last = atoi(entry->d_name);
				closedir(proc);
				return last;
			}
	return -1;
}

/* Looks at each process that appears. */
static void spy(const char *canary)
{
	puts("ready");
	for (int last = getpid(); (last = next(last)) > 0;)
		look(last, canary);
}

/* Waits until a process that was sent SIGSTOP has stopped, and is true if it is the program at /links/0 by then. */
static int became_program(int pid)
{
	char path[64], line[256], *name, *state;

	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	for (;;) {
		FILE *stat = fopen(path, "r");
		int is_there = stat && fgets(line, sizeof line, stat);

		if (stat)
			fclose(stat);
		if (!is_there || !(name = strchr(line, '(')) || !(state = strrchr(line, ')')) || state[2] == 'Z')
			return 0;
		if (state[2] == 'T')
			return strncmp(name, "(0)", 3) == 0 || strncmp(name, "(sh)", 4) == 0;
	}
}

/* Makes a program, /links/0, that takes long to find, and a shell of it, and stops each process that appears: one that
 * has become its program before the signal reached it may go on, and another try shows what is looked for. */
static int stop(void)
{
	char text[4096], name[16];

	if (mkdir("/links", 0755) != 0 || chdir("/links") != 0)
		return perror("/links"), 1;
	for (int link = 0; link < 38; link++) {
		for (int at = 0; at < 3900; at += 2)
			memcpy(text + at, "./", 2);
		snprintf(text + 3900, sizeof text - 3900, link == 37 ? "../bin/busybox" : "%d", link + 1);
		snprintf(name, sizeof name, "%d", link);
		if (symlink(text, name) != 0)
			return perror(name), 1;
	}
	unlink("/bin/sh");
	if (symlink("/links/0", "/bin/sh") != 0)
		return perror("/bin/sh"), 1;
	puts("ready");
	for (int last = getpid(); (last = next(last)) > 0;)
		if (kill(last, SIGSTOP) == 0 && became_program(last))
			kill(last, SIGCONT);
	return 1;
}

/* On the host: puts a key into a session keyring of its own and becomes the command. Inside: looks for it. */
static int key(char **command)
{
	char secret[64] = "";

	if (command[0]) {
		syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, NULL);
		syscall(SYS_add_key, "user", "tote-canary", "secret", 6, -3);
		execvp(command[0], command);
		return perror(command[0]), 1;
	}
	long found = syscall(SYS_keyctl, 10 /* KEYCTL_SEARCH */, -3, "user", "tote-canary", 0);

	if (found < 0)
		return printf("no key: %s\n", strerrorname_np(errno)), 0;
	syscall(SYS_keyctl, 11 /* KEYCTL_READ */, found, secret, sizeof secret - 1);
	return printf("FOUND %s\n", secret), 0;
}

/* Puts a script in the program's place whose interpreter takes long to be found, and exchanges it with a link to whatever
 * executes it, over and over: one of two looks at the program sees the one, the other sees the other. */
static void exchange(const char *program)
{
	static char text[4096];
	char name[32];

	mkdir("/links", 0755);
	for (int i = 0; i < 38; i++) {
		int length = 0;

		while (length < 4000)
			text[length++] = '.', text[length++] = '/';
		snprintf(text + length, 16, i == 37 ? "end" : "l%d", i + 1);
		snprintf(name, sizeof name, "/links/l%d", i);
		if (symlink(text, name) < 0)
			exit((perror(name), 1));
	}
	if (symlink("/bin/busybox", "/links/end") < 0 || symlink("/proc/self/exe", "/links/other") < 0)
		exit((perror("/links"), 1));
	unlink(program);
	int script = open(program, O_CREAT | O_WRONLY, 0755);
	dprintf(script, "#!/links/l0\n");
	close(script);
	if (fork() == 0)
		for (;;) {
			syscall(SYS_renameat2, AT_FDCWD, program, AT_FDCWD, "/links/other", 2);
			for (volatile int i = 0; i < 3000; i++)
				;
		}
}

/* Changes the mode of whatever a new process of this PID namespace executes, unless that is a program of the image. */
static void catch(int pid)
{
	struct stat own, busybox, found;
	char path[64];
	int caught = 0;

	stat("/proc/self/exe", &own);
	stat("/bin/busybox", &busybox);
	snprintf(path, sizeof path, "/proc/%d/exe", pid);
	while (kill(pid, 0) == 0) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			continue;
		fstat(fd, &found);
		if (found.st_ino != own.st_ino && found.st_ino != busybox.st_ino) {
			int changed = fchmod(fd, 0701) == 0;

			if (changed || !caught)
				puts(changed ? "changed" : "caught");
			caught = 1;
		}
		close(fd);
	}
}

/* The number of this PID namespace's newest process. */
static int newest(int loadavg)
{
	char text[128] = "";

	if (pread(loadavg, text, sizeof text - 1, 0) < 0)
		exit((perror("/proc/loadavg"), 1));
	return atoi(strrchr(text, ' ') + 1);
}

/* Waits for as many processes to come and go, and tries to catch each. With a program, by [exchange]. */
static int hunt(int count, const char *program)
{
	int loadavg = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);

	if (program)
		exchange(program);
	puts("ready");
	for (int last = newest(loadavg), now; count > 0; last = now) {
		while ((now = newest(loadavg)) == last)
			;
		catch(now);
		count -= now - last;
	}
	kill(-1, SIGKILL);
	return 0;
}

/* In a directory of others: puts a link to the file `private` in place of each `node` as soon as it is made. */
static int swap(const char *directory)
{
	if (chdir(directory) != 0)
		return perror(directory), 1;
	puts("ready");
	for (;;) {
		unlink("link");
		symlink("private", "link");
		while (syscall(SYS_renameat2, AT_FDCWD, "link", AT_FDCWD, "node", 2 /* RENAME_EXCHANGE */) != 0) { }
		for (volatile int i = 0; i < 20000; i++) { }
		unlink("node");
	}
}

/* As a user of the host: makes a session keyring of that name that all may join, with a key in it; goes with its input. */
static int squat(const char *name)
{
	char byte;

	if (setgid(65534) != 0 || setuid(65534) != 0)
		return perror("setuid"), 1;
	long ring = syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, name);
	long key = syscall(SYS_add_key, "user", "tote-canary", "secret", 6, ring);

	if (ring < 0 || key < 0 || syscall(SYS_keyctl, 5 /* KEYCTL_SETPERM */, key, 0x3f3f3f3f) != 0 ||
	    syscall(SYS_keyctl, 5 /* KEYCTL_SETPERM */, ring, 0x3f3f3f3f) != 0)
		return perror("keyring"), 1;
	puts("ready");
	return read(0, &byte, 1) == 0 ? 0 : 1;
}

/* Takes both kinds of lock on a file or directory, where it is free, and keeps them. */
static int hold(const char *path, const struct stat *stat, int flag, __attribute__((unused)) struct FTW *place)
{
	struct flock whole = { .l_type = F_RDLCK };
	int fd = -1;

	/* Of /sys only the cgroups are the container's own. */
	if (strcmp(path, "/proc") == 0 || (strncmp(path, "/sys/", 5) == 0 && strncmp(path, "/sys/fs", 7) != 0) ||
	    (strncmp(path, "/sys/fs/", 8) == 0 && strncmp(path, "/sys/fs/cgroup", 14) != 0))
		return FTW_SKIP_SUBTREE;
	if ((S_ISREG(stat->st_mode) || S_ISDIR(stat->st_mode)) && flag != FTW_DNR)
		fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	held += fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
	fcntl(fd, F_OFD_SETLK, &whole);
	return FTW_CONTINUE;
}

/* Locks all that can be opened below the root, says how much it was, and keeps it until it is killed. */
static int hold_all(void)
{
	struct rlimit most;

	getrlimit(RLIMIT_NOFILE, &most);
	most.rlim_cur = most.rlim_max;
	setrlimit(RLIMIT_NOFILE, &most);
	nftw("/", hold, 16, FTW_PHYS | FTW_ACTIONRETVAL);
	printf("holds %d\n", held);
	for (;;) pause();
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	struct stat own, rules;

	setvbuf(stdout, NULL, _IONBF, 0);
	if (strcmp(name, "escape") == 0 && argc == 3)
		return escape(argv[2]);
	if (strcmp(name, "call") == 0 && argc == 3)
		return call(argv[2]);
	if (strcmp(name, "file") == 0 && argc == 4)
		return file(argv[2], argv[3]);
	if (strcmp(name, "notify") == 0 && argc == 3)
		return notify(argv[2]);
	if (strcmp(name, "ask") == 0 && argc == 4)
		return signal(SIGPIPE, SIG_IGN), ask(argv[2], argv[3]);
	if (strcmp(name, "lock") == 0 && argc == 3) {
		int fd = open(argv[2], O_RDONLY);

		puts(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 ? "locked" : strerror(errno));
		return 0;
	}
	if (strcmp(name, "hold") == 0)
		return hold_all();
	if (strcmp(name, "catch") == 0 && argc == 3)
		return spy(argv[2]), 1;
	if (strcmp(name, "stop") == 0)
		return stop();
	if (strcmp(name, "key") == 0)
		return key(argv + 2);
	if (strcmp(name, "swap") == 0 && argc == 3)
		return swap(argv[2]);
	if (strcmp(name, "squat") == 0 && argc == 3)
		return squat(argv[2]);
	if (strcmp(name, "serve") == 0)
		return serve();
	if (strcmp(name, "deep") == 0 && argc == 3)
		return deep(atoi(argv[2]));
	if (strcmp(name, "hunt") == 0 && argc >= 3)
		return hunt(atoi(argv[2]), argv[3]);
	/* As sudo, which looks at the owners of its program and of its rules first. */
	if (strcmp(name, "as-root") == 0 && argc >= 3)
		return stat("/proc/self/exe", &own) || own.st_uid || stat("/etc/sudoers", &rules) || rules.st_uid ||
		       setgid(0) || setuid(0) || execvp(argv[2], argv + 2);
	if (strcmp(name, "ids") == 0)
		return printf("%d %d\n", getuid(), geteuid()) < 0;
	return 2;
}
