#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

// Measures `PROGRAM --version` for each given program: CPU time and peak memory, the median of many alternating starts (41,
// or the number after `-n`). Prints one JSON array. A separate program, because a process begins with the peak memory of the
// process that created it.

namespace {

struct Start {
    double cpu_ms = 0;
    double peak_mb = 0;
};

bool start(const char* program, Start& seen) {
    std::string name = program;
    std::string flag = "--version";
    char* const arguments[] = {name.data(), flag.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t child = 0;
    const bool spawned = posix_spawn(&child, program, &actions, nullptr, arguments, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    int status = 0;
    rusage used{};
    if (!spawned || wait4(child, &status, 0, &used) != child || status != 0) return false;
    const auto ms = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) * 1e-3;
    };
    seen.cpu_ms = ms(used.ru_utime) + ms(used.ru_stime);
    seen.peak_mb = static_cast<double>(used.ru_maxrss) / 1024;
    return true;
}

double median(const std::vector<Start>& starts, double Start::* number) {
    std::vector<double> numbers;
    for (const Start& one : starts) numbers.push_back(one.*number);
    std::sort(numbers.begin(), numbers.end());
    return numbers[numbers.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
    int rounds = 41;
    if (argc > 2 && std::string(argv[1]) == "-n") {
        rounds = std::atoi(argv[2]);
        argc -= 2;
        argv += 2;
    }
    if (argc < 2 || rounds < 1) {
        std::fprintf(stderr, "usage: cubepi_starts [-n ROUNDS] PROGRAM...\n");
        return 2;
    }
    std::vector<std::vector<Start>> seen(static_cast<std::size_t>(argc - 1));
    for (int round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < seen.size(); ++i) {
            Start one;
            if (!start(argv[i + 1], one)) {
                std::fprintf(stderr, "%s --version failed\n", argv[i + 1]);
                return 1;
            }
            seen[i].push_back(one);
        }
    }
    std::printf("[");
    for (std::size_t i = 0; i < seen.size(); ++i) {
        std::printf("%s{\"cpu_ms\": %.3f, \"peak_mb\": %.3f}", i == 0 ? "" : ", ",
                    median(seen[i], &Start::cpu_ms), median(seen[i], &Start::peak_mb));
    }
    std::printf("]\n");
}
