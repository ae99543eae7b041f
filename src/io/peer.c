/* peer: which user is at the other end of a local connection (see peer.h).
 *
 * One exact question to sock_diag costs some microseconds however many sockets there are; the text tables in /proc/net
 * are only read where the kernel was built without it.
 *
 * Every fault, also an answer that doesn't fit, means: not known. */
#include "io/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Both ends as the peer sees them: 4 or 16 address bytes, ports in network order. */
struct peer_ends {
    unsigned char family;       /* AF_INET or AF_INET6 */
    uint32_t here[4], there[4]; /* here: the peer's own end */
    uint16_t here_port, there_port;
};

void peer_table_init(struct peer_table *table)
{
    table->netlink = -1;
}

void peer_table_release(struct peer_table *table)
{
    if (table->netlink >= 0)
        close(table->netlink);
    table->netlink = -1;
}

bool peer_uid_unix(int fd, uid_t *out_uid)
{
    struct ucred cred;
    socklen_t size = sizeof cred;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) != 0 || size != sizeof cred || cred.uid == (uid_t)-1)
        return false;
    *out_uid = cred.uid;
    return true;
}

static bool address_read(
    const struct sockaddr_storage *from, unsigned char *out_family, uint32_t out[4], uint16_t *out_port)
{
    memset(out, 0, 4 * sizeof *out);
    if (from->ss_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, from, sizeof in);
        *out_family = AF_INET;
        out[0] = in.sin_addr.s_addr;
        *out_port = in.sin_port;
        return true;
    }
    if (from->ss_family != AF_INET6)
        return false;
    struct sockaddr_in6 in6;
    memcpy(&in6, from, sizeof in6);
    *out_port = in6.sin6_port;
    if (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)) {
        *out_family = AF_INET;
        memcpy(out, in6.sin6_addr.s6_addr + 12, 4);
    } else {
        *out_family = AF_INET6;
        memcpy(out, in6.sin6_addr.s6_addr, 16);
    }
    return true;
}

static bool address_is_loopback(unsigned char family, const uint32_t address[4])
{
    if (family == AF_INET)
        return (ntohl(address[0]) >> 24) == 127;
    return address[0] == 0 && address[1] == 0 && address[2] == 0 && address[3] == htonl(1);
}

bool peer_is_loopback(const struct sockaddr *address)
{
    struct sockaddr_storage copy = { 0 };
    if (address->sa_family != AF_INET && address->sa_family != AF_INET6)
        return false;
    memcpy(&copy, address, address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
    unsigned char family;
    uint32_t bytes[4];
    uint16_t port;
    return address_read(&copy, &family, bytes, &port) && address_is_loopback(family, bytes);
}

static bool ends_read(int fd, struct peer_ends *out)
{
    struct sockaddr_storage ours = { 0 }, theirs = { 0 };
    socklen_t ours_size = sizeof ours, theirs_size = sizeof theirs;
    unsigned char family;
    if (getsockname(fd, (struct sockaddr *)&ours, &ours_size) != 0 ||
        getpeername(fd, (struct sockaddr *)&theirs, &theirs_size) != 0)
        return false;
    return address_read(&theirs, &out->family, out->here, &out->here_port) &&
           address_read(&ours, &family, out->there, &out->there_port) && family == out->family &&
           address_is_loopback(out->family, out->here);
}

enum peer_answer { PEER_FOUND, PEER_NONE, PEER_NO_SERVICE };

static enum peer_answer netlink_read(int netlink, uid_t *out_uid)
{
    /* The kernel answers while it takes the question: whatever there is, is there now. */
    union {
        struct nlmsghdr head;
        char bytes[4096];
    } answer;
    ssize_t n = recv(netlink, &answer, sizeof answer, MSG_DONTWAIT);
    if (n < (ssize_t)sizeof answer.head || !NLMSG_OK(&answer.head, (size_t)n))
        return PEER_NO_SERVICE;
    if (answer.head.nlmsg_type == NLMSG_ERROR) {
        struct nlmsgerr fault;
        if ((size_t)n < NLMSG_LENGTH(sizeof fault))
            return PEER_NO_SERVICE;
        memcpy(&fault, NLMSG_DATA(&answer.head), sizeof fault);
        return fault.error == -ENOENT ? PEER_NONE : PEER_NO_SERVICE;
    }
    struct inet_diag_msg found;
    if (answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY || answer.head.nlmsg_len < NLMSG_LENGTH(sizeof found))
        return PEER_NO_SERVICE;
    memcpy(&found, NLMSG_DATA(&answer.head), sizeof found);
    if (found.idiag_inode == 0)
        return PEER_NONE; /* closed by its owner: its uid would read as 0 */
    *out_uid = found.idiag_uid;
    return PEER_FOUND;
}

static enum peer_answer netlink_ask(int netlink, const struct peer_ends *ends, uid_t *out_uid)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 ask;
    } question = {
        .head = { .nlmsg_len = sizeof question, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST },
        .ask = { .sdiag_family = ends->family, .sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0U },
    };
    struct inet_diag_sockid *id = &question.ask.id;
    id->idiag_sport = ends->here_port;
    id->idiag_dport = ends->there_port;
    memcpy(id->idiag_src, ends->here, sizeof id->idiag_src);
    memcpy(id->idiag_dst, ends->there, sizeof id->idiag_dst);
    id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    if (send(netlink, &question, sizeof question, 0) != (ssize_t)sizeof question)
        return PEER_NO_SERVICE;
    return netlink_read(netlink, out_uid);
}

bool peer_uid_tcp(struct peer_table *table, int fd, uid_t *out_uid)
{
    struct peer_ends ends = { 0 };
    if (!ends_read(fd, &ends))
        return false;
    if (table->netlink == -1) {
        table->netlink = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
        if (table->netlink < 0)
            table->netlink = -2;
    }
    if (table->netlink < 0)
        return peer_uid_proc(fd, out_uid);
    enum peer_answer answer = netlink_ask(table->netlink, &ends, out_uid);
    if (answer != PEER_NO_SERVICE)
        return answer == PEER_FOUND;
    close(table->netlink);
    table->netlink = -2;
    return peer_uid_proc(fd, out_uid);
}

/* --- /proc/net/tcp --- */

/* "0100007F:1F90": each group of 8 digits is one 32-bit word as the machine holds it. */
static bool proc_address(const char *text, size_t n_words, uint32_t out[4], uint16_t *out_port)
{
    memset(out, 0, 4 * sizeof *out);
    for (size_t i = 0; i < n_words; i++) {
        char word[9] = "";
        memcpy(word, text + 8 * i, 8);
        char *end;
        out[i] = (uint32_t)strtoul(word, &end, 16);
        if (*end)
            return false;
    }
    char *end;
    *out_port = htons((uint16_t)strtoul(text + 8 * n_words + 1, &end, 16));
    return *end == '\0';
}

static bool proc_line_matches(const char *line, const struct peer_ends *ends, bool *out_owned, uid_t *out_uid)
{
    char local[40], remote[40];
    unsigned uid, inode;
    if (sscanf(line, " %*u: %39[0-9A-F:] %39[0-9A-F:] %*x %*x:%*x %*x:%*x %*x %u %*u %u", local, remote, &uid,
            &inode) != 4)
        return false;
    size_t digits = strcspn(local, ":");
    if ((digits != 8 && digits != 32) || strcspn(remote, ":") != digits || local[digits] != ':' ||
        remote[digits] != ':')
        return false;
    uint32_t here[4], there[4];
    uint16_t here_port, there_port;
    if (!proc_address(local, digits / 8, here, &here_port) || !proc_address(remote, digits / 8, there, &there_port))
        return false;
    size_t at = 0;
    if (ends->family == AF_INET && digits == 32) { /* an IPv6 socket that speaks IPv4: ::ffff:a.b.c.d */
        if (here[0] != 0 || here[1] != 0 || here[2] != htonl(0xffff) || there[2] != htonl(0xffff))
            return false;
        at = 3;
    } else if ((ends->family == AF_INET6) != (digits == 32)) {
        return false;
    }
    size_t size = ends->family == AF_INET ? 4 : 16;
    if (memcmp(here + at, ends->here, size) != 0 || memcmp(there + at, ends->there, size) != 0)
        return false;
    if (here_port != ends->here_port || there_port != ends->there_port)
        return false;
    *out_owned = inode != 0;
    *out_uid = uid;
    return true;
}

bool peer_uid_proc(int fd, uid_t *out_uid)
{
    static const char *const tables[] = { "/proc/net/tcp", "/proc/net/tcp6" };
    struct peer_ends ends = { 0 };
    if (!ends_read(fd, &ends))
        return false;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        FILE *table = fopen(tables[i], "re");
        if (!table)
            continue;
        char line[512];
        bool found = false, owned = false;
        while (!found && fgets(line, sizeof line, table))
            found = proc_line_matches(line, &ends, &owned, out_uid);
        fclose(table);
        if (found)
            return owned;
    }
    return false;
}
