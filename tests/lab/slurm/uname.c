/* uname() of a machine of another architecture, for a slurmd whose jobs run there: LD_PRELOAD=uname.so slurmd */
#define _GNU_SOURCE
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

int uname(struct utsname *name)
{
    int status = (int)syscall(SYS_uname, name);
    if (status == 0)
        strcpy(name->machine, "aarch64");
    return status;
}
