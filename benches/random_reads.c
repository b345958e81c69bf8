/* Random reads of a file over NFS with libnfs, with a fixed number in flight, for a fixed time: our streams' peer.
 * Arguments: URL of the file, bytes per read, reads in flight, seconds, and 1 to set TCP_NODELAY, which libnfs does not
 * set itself. Prints the number of reads, seconds and CPU seconds. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
/* needs the headers above */
#include <nfsc/libnfs.h>

static struct nfs_context *nfs;
static struct nfsfh *file;
static uint64_t blocks, number = 88172645463325252ull;
static int bytes;
static long done, under_way;
static double ends_s;

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static double cpu_s(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void must(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "%s: %s\n", what, nfs ? nfs_get_error(nfs) : "no memory");
        exit(1);
    }
}

static void read_one(void);

static void was_read(int status, struct nfs_context *context, void *data, void *mine) {
    (void)context, (void)data, (void)mine;
    must(status == bytes, "read");
    done++;
    under_way--;
    if (now_s() < ends_s)
        read_one();
}

static void read_one(void) {
    number ^= number << 13, number ^= number >> 7, number ^= number << 17; /* xorshift64 */
    must(nfs_pread_async(nfs, file, number % blocks * bytes, bytes, was_read, NULL) == 0, "read");
    under_way++;
}

int main(int count, char **words) {
    must(count == 6 && (nfs = nfs_init_context()), "arguments");
    bytes = atoi(words[2]);
    struct nfs_url *url = nfs_parse_url_full(nfs, words[1]);
    must(url && nfs_mount(nfs, url->server, url->path) == 0, "mount");
    int at_once = atoi(words[5]);
    must(setsockopt(nfs_get_fd(nfs), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once) == 0, "socket");
    must(nfs_open(nfs, url->file, 0, &file) == 0, "open");
    struct nfs_stat_64 found;
    must(nfs_fstat64(nfs, file, &found) == 0 && (blocks = found.nfs_size / bytes) > 0, "size");
    double began_s = now_s(), cpu_before_s = cpu_s();
    ends_s = began_s + atof(words[4]);
    for (int depth = atoi(words[3]); depth > 0; depth--)
        read_one();
    while (under_way > 0) {
        struct pollfd wait = {.fd = nfs_get_fd(nfs), .events = nfs_which_events(nfs)};
        must(poll(&wait, 1, 10000) > 0 && nfs_service(nfs, wait.revents) == 0, "answer");
    }
    printf("%ld %.6f %.6f\n", done, now_s() - began_s, cpu_s() - cpu_before_s);
    return 0;
}
