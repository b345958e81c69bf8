/* What metadata costs without a tool: create, stat, open and read, unlink, in phases over so many files, for so long.
 * Arguments: directory, files, bytes of each, seconds. Prints operations, seconds and CPU seconds. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

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
        perror(what);
        exit(1);
    }
}

int main(int count, char **words) {
    must(count == 5 && chdir(words[1]) == 0, "directory");
    int files = atoi(words[2]), bytes = atoi(words[3]);
    double seconds = atof(words[4]), began_s = now_s(), cpu_before_s = cpu_s();
    char *data = calloc(1, bytes + 1), name[32];
    long operations = 0;
    struct stat found;
    while (now_s() - began_s < seconds) {
        for (int phase = 0; phase < 4; phase++)
            for (int file = 0; file < files; file++) {
                snprintf(name, sizeof name, "file.%d", file);
                if (phase == 1) {
                    must(stat(name, &found) == 0, "stat");
                } else if (phase == 3) {
                    must(unlink(name) == 0, "unlink");
                } else {
                    int open_file = open(name, phase ? O_RDONLY : O_RDWR | O_CREAT | O_TRUNC, 0666);
                    must(open_file >= 0, "open");
                    if (bytes)
                        must((phase ? pread(open_file, data, bytes, 0) : pwrite(open_file, data, bytes, 0)) == bytes, "data");
                    must(close(open_file) == 0, "close");
                }
                operations++;
            }
    }
    printf("%ld %.6f %.6f\n", operations, now_s() - began_s, cpu_s() - cpu_before_s);
    return 0;
}
