/* A hostile neighbour: `packets LINK GATEWAY [GATEWAY6]` sends the machine one of each packet that could change what the machine
 * believes, from a network whose gateway the machine is. Each datagram says in its first word which class of packets it is of. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* The machine of the tests, the router of its link, hosts beside that, and hosts beyond: one for each class that is about a route. */
#define MACHINE "198.51.100.2"
#define ROUTER "198.51.100.9"
#define BESIDE "198.51.100.66"
#define CLAIMED "198.51.100.67"
#define FAR "203.0.113."
#define MACHINE6 "2001:db8::2"
#define ROUTER6 "2001:db8::9"
#define ROUTER6_LINK "fe80::9"
#define BESIDE6_LINK "fe80::66"
#define FAR6 "2001:db8:f::"

typedef unsigned char byte;

static int packets, link_index;
static byte own_mac[6], gateway_mac[6];
static struct in_addr own;
static struct in6_addr own6, own6_link;
static const byte claimed_mac[6] = { 2, 0, 0, 0, 0, 0xba };
static const byte all[6] = { 255, 255, 255, 255, 255, 255 };

static struct in_addr address(const char *text)
{
	struct in_addr found;

	inet_pton(AF_INET, text, &found);
	return found;
}

static struct in6_addr address6(const char *text)
{
	struct in6_addr found;

	inet_pton(AF_INET6, text, &found);
	return found;
}

static void put16(byte *to, unsigned value)
{
	to[0] = value >> 8;
	to[1] = value;
}

static unsigned sum(const byte *bytes, size_t length, unsigned start)
{
	for (size_t i = 0; i < length; i++)
		start += i % 2 ? bytes[i] : bytes[i] << 8;
	while (start >> 16)
		start = (start & 0xffff) + (start >> 16);
	return start;
}

static void frame(const byte *to, unsigned type, const byte *data, size_t length)
{
	byte bytes[1514];
	struct sockaddr_ll place = { .sll_family = AF_PACKET, .sll_ifindex = link_index, .sll_halen = 6 };

	memcpy(bytes, to, 6);
	memcpy(bytes + 6, own_mac, 6);
	put16(bytes + 12, type);
	memcpy(bytes + 14, data, length);
	if (sendto(packets, bytes, 14 + length, 0, (struct sockaddr *)&place, sizeof place) < 0)
		perror("sendto");
}

/* A packet of IPv4 at `packet`, around data that is there already. Gives its length. */
static size_t around(byte *packet, struct in_addr from, struct in_addr to, int protocol, size_t length)
{
	memset(packet, 0, 20);
	packet[0] = 0x45;
	put16(packet + 2, 20 + length);
	packet[8] = 64;
	packet[9] = protocol;
	memcpy(packet + 12, &from, 4);
	memcpy(packet + 16, &to, 4);
	put16(packet + 10, ~sum(packet, 20, 0));
	return 20 + length;
}

static size_t around6(byte *packet, struct in6_addr from, struct in6_addr to, int next, int hops, size_t length)
{
	memset(packet, 0, 40);
	packet[0] = 0x60;
	put16(packet + 4, length);
	packet[6] = next;
	packet[7] = hops;
	memcpy(packet + 8, &from, 16);
	memcpy(packet + 24, &to, 16);
	/* Both protocols that are sent here have a sum, at different places. */
	byte *checksum = packet + 40 + (next == IPPROTO_UDP ? 6 : 2);

	put16(checksum, 0);
	put16(checksum, ~sum(packet + 8, 32 + length, length + next));
	return 40 + length;
}

static size_t datagram(byte *at, unsigned from, unsigned to, const char *text)
{
	memset(at, 0, 8);
	put16(at, from);
	put16(at + 2, to);
	put16(at + 4, 8 + strlen(text));
	memcpy(at + 8, text, strlen(text));
	return 8 + strlen(text);
}

static void udp(const byte *mac, struct in_addr from, const char *to, unsigned port, const char *text)
{
	byte packet[200];
	size_t length = datagram(packet + 20, port == 68 ? 67 : 4444, port, text);

	frame(mac, ETH_P_IP, packet, around(packet, from, address(to), IPPROTO_UDP, length));
}

static void udp6(const byte *mac, struct in6_addr from, const char *to, const char *text)
{
	byte packet[200];
	size_t length = datagram(packet + 40, 4444, 9999, text);

	frame(mac, ETH_P_IPV6, packet, around6(packet, from, address6(to), IPPROTO_UDP, 64, length));
}

/* A message of ICMP about a packet that the machine is to have sent there: an answer to ping(8), or a datagram from port 7777. */
static void about(struct in_addr from, int type, int code, const byte rest[4], const char *there, int protocol)
{
	byte packet[100] = { 0 }, *icmp = packet + 20, *quoted = icmp + 8;
	size_t length = 8;

	if (protocol == IPPROTO_UDP)
		datagram(quoted + 20, 7777, 53, "");
	length += around(quoted, address(MACHINE), address(there), protocol, 8);
	icmp[0] = type;
	icmp[1] = code;
	memcpy(icmp + 4, rest, 4);
	put16(icmp + 2, ~sum(icmp, length, 0));
	frame(gateway_mac, ETH_P_IP, packet, around(packet, from, address(MACHINE), IPPROTO_ICMP, length));
}

static void icmp6(const byte *mac, struct in6_addr from, const char *to, const byte *message, size_t length)
{
	byte packet[1400];

	memcpy(packet + 40, message, length);
	frame(mac, ETH_P_IPV6, packet, around6(packet, from, address6(to), IPPROTO_ICMPV6, 255, length));
}

/* An answer of the machine's to a ping, as an error or a redirection quotes it. */
static size_t quoted6(byte *at, const char *there)
{
	memset(at + 40, 0, 8);
	at[40] = 129;
	return around6(at, address6(MACHINE6), address6(there), IPPROTO_ICMPV6, 64, 8);
}

static void of_ipv4(void)
{
	const byte longest[4] = { 0, 0, 600 >> 8, 600 & 255 }, none[4] = { 0 };
	struct in_addr beside = address(BESIDE), router = address(ROUTER);
	byte tagged[200] = { 0, 7, 8, 0 };

	udp(gateway_mac, own, MACHINE, 9999, "own");
	about(router, 5, 1, (byte *)&beside, FAR "1", IPPROTO_ICMP);
	about(own, 3, 4, longest, FAR "2", IPPROTO_ICMP);
	about(router, 3, 4, longest, FAR "3", IPPROTO_ICMP);
	about(own, 3, 3, none, FAR "9", IPPROTO_UDP);
	udp(gateway_mac, router, MACHINE, 9999, "router");
	udp(gateway_mac, address(FAR "9"), MACHINE, 9999, "far");
	udp(gateway_mac, address("10.211.0.7"), MACHINE, 9999, "network");
	udp(gateway_mac, address("0.0.0.0"), MACHINE, 9999, "nobody");
	udp((byte[]){ 1, 0, 0x5e, 0, 0, 1 }, own, "224.0.0.1", 9999, "multicast");
	udp((byte[]){ 1, 0, 0x5e, 0, 0, 1 }, router, "224.0.0.1", 9999, "multicast-router");
	udp(all, own, "255.255.255.255", 68, "dhcp");
	udp(all, router, "255.255.255.255", 68, "dhcp-router");
	udp(all, address("0.0.0.0"), "255.255.255.255", 68, "dhcp-nobody");
	/* In a VLAN, and with the tag that means none. */
	size_t length = datagram(tagged + 24, 4444, 9999, "vlan");

	length = around(tagged + 4, router, address(MACHINE), IPPROTO_UDP, length);
	frame(gateway_mac, 0x8100, tagged, 4 + length);
	tagged[1] = 0;
	frame(gateway_mac, 0x8100, tagged, 4 + length);
}

/* Says by ARP that an address has that hardware, with something behind it. */
static void arp(const byte *to, int operation, struct in_addr from, const byte *mac, struct in_addr whom, size_t length)
{
	byte message[1400] = { 0, 1, 8, 0, 6, 4, 0, operation };

	memcpy(message + 8, mac, 6);
	memcpy(message + 14, &from, 4);
	memcpy(message + 18, to == all ? (byte[6]){ 0 } : to, 6);
	memcpy(message + 24, &whom, 4);
	frame(to, ETH_P_ARP, message, length);
}

static void of_ipv6(const char *gateway)
{
	const byte everybody[6] = { 0x33, 0x33, 0, 0, 0, 1 };
	struct in6_addr router = address6(ROUTER6), target;
	byte message[1300] = { 137 };
	size_t length;

	target = address6(BESIDE6_LINK);
	memcpy(message + 8, &target, 16);
	target = address6(FAR6 "1");
	memcpy(message + 24, &target, 16);
	/* The quoted packet is an option: its length is a multiple of eight. */
	length = quoted6(message + 48, FAR6 "1");
	message[40] = 4;
	message[41] = (8 + length + 7) / 8;
	icmp6(gateway_mac, address6(ROUTER6_LINK), MACHINE6, message, 40 + message[41] * 8);
	memset(message, 0, sizeof message);
	message[0] = 2;
	put16(message + 6, 1280);
	length = quoted6(message + 8, FAR6 "2");
	icmp6(gateway_mac, own6, MACHINE6, message, 8 + length);
	udp6(gateway_mac, own6, gateway, "own6");
	udp6(gateway_mac, router, MACHINE6, "router6");
	udp6(gateway_mac, address6(FAR6 "9"), gateway, "far6");
	udp6(gateway_mac, address6(gateway), gateway, "gateway6");
	/* IPv4 in disguise: a program that passes it on may take it for that. */
	udp6(gateway_mac, own6, "::ffff:127.0.0.1", "mapped6");
	udp6(gateway_mac, own6, "::ffff:" MACHINE, "mapped6");
	udp6(everybody, own6_link, "ff02::1", "multicast6");
	udp6(everybody, router, "ff02::1", "multicast6-router");
	/* A router for everything, with a network of its own. */
	const byte prefix[16] = { 3, 4, 64, 0xc0, 0, 1, 0, 0, 0, 0, 64, 0 };

	memset(message, 0, sizeof message);
	message[0] = 134;
	message[4] = 64;
	put16(message + 6, 1800);
	memcpy(message + 16, prefix, 16);
	target = address6("2001:db8:bad::");
	memcpy(message + 32, &target, 16);
	icmp6(everybody, own6_link, "ff02::1", message, 48);
	/* The router of the machine's link is here, in words that override what was known, and much behind them. */
	memset(message, 0, sizeof message);
	message[0] = 136;
	message[4] = 0x60;
	memcpy(message + 8, &router, 16);
	message[24] = 2;
	message[25] = 1;
	memcpy(message + 26, claimed_mac, 6);
	message[32] = 14;
	message[33] = 100;
	icmp6(gateway_mac, router, MACHINE6, message, 32 + 800);
	icmp6(everybody, own6, "ff02::1", message, 32 + 800);
}

/* Learns the gateway's hardware address, and so waits until the machine has seen all frames that were sent before. */
static int reach(const char *gateway)
{
	struct in_addr there = address(gateway);
	byte bytes[1514];

	for (int tries = 0; tries < 100; tries++) {
		arp(all, 1, own, own_mac, there, 28);
		for (ssize_t length; (length = recv(packets, bytes, sizeof bytes, 0)) >= 0;)
			if (length >= 42 && bytes[12] == 8 && bytes[13] == 6 && bytes[21] == 2 &&
			    memcmp(bytes + 28, &there, 4) == 0)
				return memcpy(gateway_mac, bytes + 22, 6), 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct timeval patience = { .tv_usec = 200000 };
	struct ifaddrs *found;
	struct ifreq named = { 0 };
	cpu_set_t one;

	if (argc < 3)
		return 2;
	/* Frames that one processor sends come in their order. */
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof one, &one);
	packets = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
	strncpy(named.ifr_name, argv[1], IFNAMSIZ - 1);
	if (packets < 0 || ioctl(packets, SIOCGIFHWADDR, &named) < 0 || getifaddrs(&found) < 0)
		return perror("packets"), 1;
	memcpy(own_mac, named.ifr_hwaddr.sa_data, 6);
	link_index = if_nametoindex(argv[1]);
	setsockopt(packets, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	for (struct ifaddrs *each = found; each; each = each->ifa_next) {
		if (!each->ifa_addr || strcmp(each->ifa_name, argv[1]) != 0)
			continue;
		struct sockaddr_in6 *six = (struct sockaddr_in6 *)each->ifa_addr;

		if (each->ifa_addr->sa_family == AF_INET && own.s_addr == 0)
			own = ((struct sockaddr_in *)each->ifa_addr)->sin_addr;
		else if (each->ifa_addr->sa_family == AF_INET6)
			*(IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr) ? &own6_link : &own6) = six->sin6_addr;
	}
	if (!reach(argv[2]))
		return puts("no gateway"), 1;
	of_ipv4();
	arp(all, 1, address(CLAIMED), claimed_mac, address(argv[2]), 1000);
	arp(gateway_mac, 2, address(CLAIMED), claimed_mac, address(MACHINE), 1000);
	if (argc > 3)
		of_ipv6(argv[3]);
	return reach(argv[2]) ? puts("sent"), 0 : 1;
}
