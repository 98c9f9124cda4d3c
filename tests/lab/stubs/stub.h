/* Answers of the stand-in driver libraries, read from a small text file.
 *
 * The file is named by ARMSTAGE_STUB, else it is /etc/armstage-stub.conf. One answer a line, parts
 * separated by "|"; "#" begins a comment line. The first word says what it is:
 *
 *     driver 580.95.05
 *     cuda 13000
 *     gpu NVIDIA GB10|GPU-6f1e...|0000000F:01:00.0|-|12.1|-
 *         name|UUID|bus id|MiB or "-" (NOT_SUPPORTED)|compute capability|MIG mode: 0, 1 or "-"
 *     mig 0|NVIDIA GH200 480GB MIG 1g.12gb|MIG-af27...|7|0|11008
 *         GPU index|name|UUID|GPU instance|compute instance|MiB
 *     sensor 48|14210|2405|3003|0|1|173453251000|0|0
 *         of one GPU after the other: degrees C|mW|SM MHz|highest SM MHz|%|clock event reasons|ns of slowdown by
 *         software for heat|by hardware for heat|by the power brake
 *     process 0|4242|1024|C
 *         GPU index|pid|MiB or "-"|C or G
 *     fail nvmlInit_v2 18        the function returns this code
 *     hang nvmlInit_v2           the function never returns and ignores what can be ignored
 */
#ifndef ARMSTAGE_STUB_H
#define ARMSTAGE_STUB_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STUB_PARTS 9
#define STUB_LINE 512

/* Copies the number-th line that begins with this word, cut at "|"; returns the parts found. */
static inline int stub_line(const char *word, int number, char line[STUB_LINE], char *parts[STUB_PARTS])
{
    const char *path = getenv("ARMSTAGE_STUB");
    FILE *file = fopen(path ? path : "/etc/armstage-stub.conf", "r");
    size_t length = strlen(word);
    int found = 0;
    if (!file)
        return 0;
    while (!found && fgets(line, STUB_LINE, file)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, word, length) || line[length] != ' ' || number-- > 0)
            continue;
        char *rest = line + length + 1;
        while (found < STUB_PARTS && rest) {
            parts[found++] = rest;
            rest = strchr(rest, '|');
            if (rest)
                *rest++ = 0;
        }
    }
    fclose(file);
    return found;
}

static inline int stub_count(const char *word)
{
    char line[STUB_LINE], *parts[STUB_PARTS];
    int count = 0;
    while (stub_line(word, count, line, parts))
        count++;
    return count;
}

/* The code a function is told to fail with, or 0; a function that is told to hang stays here. */
static inline int stub_enter(const char *function)
{
    char line[STUB_LINE], *parts[STUB_PARTS];
    for (int number = 0; stub_line("hang", number, line, parts); number++) {
        if (strcmp(parts[0], function))
            continue;
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, NULL);
        for (;;)
            pause();
    }
    for (int number = 0; stub_line("fail", number, line, parts); number++) {
        char name[STUB_LINE];
        int code;
        if (sscanf(parts[0], "%s %d", name, &code) == 2 && !strcmp(name, function))
            return code;
    }
    return 0;
}

#define STUB_ENTER()                                                                               \
    do {                                                                                           \
        int code = stub_enter(__func__);                                                           \
        if (code)                                                                                  \
            return code;                                                                           \
    } while (0)

#endif
