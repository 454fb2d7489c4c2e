/* What a shell cannot do: `probe NAME [ARGUMENT]`, run inside a container. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

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

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	setvbuf(stdout, NULL, _IONBF, 0);
	if (strcmp(name, "escape") == 0 && argc == 3)
		return escape(argv[2]);
	if (strcmp(name, "call") == 0 && argc == 3)
		return call(argv[2]);
	if (strcmp(name, "file") == 0 && argc == 4)
		return file(argv[2], argv[3]);
	if (strcmp(name, "notify") == 0 && argc == 3)
		return notify(argv[2]);
	if (strcmp(name, "serve") == 0)
		return serve();
	if (strcmp(name, "hunt") == 0 && argc >= 3)
		return hunt(atoi(argv[2]), argv[3]);
	if (strcmp(name, "ids") == 0) {
		printf("%d %d\n", getuid(), geteuid());
		return 0;
	}
	return 2;
}
