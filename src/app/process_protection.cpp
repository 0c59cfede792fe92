#include "process_protection.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

#include <sys/prctl.h>
#include <unistd.h>

namespace cubepi::app {

void protect_process() {
    ::prctl(PR_SET_DUMPABLE, 0);
    // Root may look nevertheless: what the kernel shows as /proc/PID/environ is the place where the variables were put at the
    // start. They move from there.
    for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::size_t size = std::strlen(*entry) + 1;
        char* copy = static_cast<char*>(std::malloc(size));
        if (copy == nullptr) throw std::bad_alloc();
        std::memcpy(copy, *entry, size);
        ::explicit_bzero(*entry, size);
        *entry = copy;  // for the life of the process, as the environment
    }
}

}  // namespace cubepi::app
