#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include <benchmark/benchmark.h>

#include <bub/tape/file_tape_store.hpp>
#include <bub/tape/tape.hpp>
#include <cubepi/core/run.hpp>

// One append, one turn, and the opening of a tape of a gigabyte, against bare file I/O.

namespace cubepi::bench {
namespace {

constexpr const char* name = "w__s";

class Directory {
public:
    explicit Directory(const char* name) : path_(std::filesystem::temp_directory_path() / name) {
        std::filesystem::remove_all(path_);
        std::filesystem::create_directories(path_);
    }
    ~Directory() { std::filesystem::remove_all(path_); }
    bub::FileTapeOptions options(bub::TapeSync sync = bub::TapeSync::never) const {
        bub::FileTapeOptions options;
        options.directory = path_;
        options.sync = sync;
        return options;
    }
    std::string file() const { return (path_ / (std::string(name) + ".jsonl")).string(); }

private:
    std::filesystem::path path_;
};

bub::TapeEntry entry(std::int64_t id = 0) {
    bub::TapeEntry made =
        bub::message_entry("user", "a message of ordinary length, as users write them");
    made.id = id;
    made.date = "2026-03-01T12:00:00.250000+00:00";
    return made;
}

/// Appends as Bub does: opens the file, writes the lines, closes the file.
void bare_appends(benchmark::State& state, int lines, bool durable) {
    const Directory directory("cubepi-bench-bare-tape");
    std::int64_t id = 0;
    for (auto _ : state) {
        const int file = open(directory.file().c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
        for (int i = 0; i < lines; ++i) {
            const std::string line = bub::tape_line(entry(++id));
            benchmark::DoNotOptimize(write(file, line.data(), line.size()));
        }
        if (durable) benchmark::DoNotOptimize(fdatasync(file));
        close(file);
    }
}

void bare_tape_append(benchmark::State& state) { bare_appends(state, 1, false); }
BENCHMARK(bare_tape_append)->UseRealTime();
void bare_durable_append(benchmark::State& state) { bare_appends(state, 1, true); }
BENCHMARK(bare_durable_append)->UseRealTime();
/// Writes two lines at once: the minimum of a turn, without the journal that survives a kill.
void bare_tape_turn(benchmark::State& state) { bare_appends(state, 2, false); }
BENCHMARK(bare_tape_turn)->UseRealTime();

void appends(benchmark::State& state, bub::TapeSync sync) {
    const Directory directory("cubepi-bench-tape");
    const bub::Tape tape(std::make_shared<bub::FileTapeStore>(directory.options(sync)), name);
    const auto loop = [&]() -> Task<void> {
        for (auto _ : state) co_await tape.append(entry());
    };
    run(loop());
}

void tape_append(benchmark::State& state) { appends(state, bub::TapeSync::never); }
BENCHMARK(tape_append)->UseRealTime();
void durable_tape_append(benchmark::State& state) { appends(state, bub::TapeSync::append); }
BENCHMARK(durable_tape_append)->UseRealTime();

/// A journaled turn of an input and an answer, whose partial output is flushed once.
void tape_turn(benchmark::State& state) {
    const Directory directory("cubepi-bench-turn");
    const bub::Tape tape(std::make_shared<bub::FileTapeStore>(directory.options()), name);
    const auto loop = [&]() -> Task<void> {
        std::int64_t turn = 0;
        for (auto _ : state) {
            bub::TurnTransactionOptions options;
            options.turn_id = "t" + std::to_string(++turn);
            const std::shared_ptr<bub::TurnTransaction> fork = tape.fork(std::move(options));
            const bub::Tape inside = tape.in(fork);
            co_await inside.append(entry());
            fork->add_text("some text");
            co_await fork->flush();
            co_await inside.append(bub::message_entry("assistant", "some text"));
            co_await fork->merge();
        }
    };
    run(loop());
}
BENCHMARK(tape_turn)->UseRealTime();

/// A tape of a gigabyte, created once. Its last anchor is a hundred entries before its end.
const Directory& gigabyte() {
    static const Directory directory("cubepi-bench-gigabyte");
    static const bool made = [] {
        std::string block = bub::tape_line(bub::anchor_entry("phase"));
        for (std::int64_t id = 1; id <= 5'000; ++id) block += bub::tape_line(entry(id));
        std::string tail = bub::tape_line(bub::anchor_entry("last"));
        for (std::int64_t id = 5'001; id <= 5'100; ++id) tail += bub::tape_line(entry(id));
        const int file = open(directory.file().c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        for (std::size_t size = 0; size < (std::size_t{1} << 30U); size += block.size())
            benchmark::DoNotOptimize(write(file, block.data(), block.size()));
        benchmark::DoNotOptimize(write(file, tail.data(), tail.size()));
        close(file);
        return true;
    }();
    benchmark::DoNotOptimize(made);
    return directory;
}

double peak_megabytes() {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) / 1024;
}

/// Reads the last block of the file: the minimum for opening a tape.
void bare_tape_tail(benchmark::State& state) {
    const std::string path = gigabyte().file();
    std::string block(std::size_t{64} << 10U, '\0');
    for (auto _ : state) {
        const int file = open(path.c_str(), O_RDONLY);
        const off_t end = lseek(file, 0, SEEK_END);
        benchmark::DoNotOptimize(
            pread(file, block.data(), block.size(), end - static_cast<off_t>(block.size())));
        close(file);
    }
}
BENCHMARK(bare_tape_tail)->UseRealTime()->Unit(benchmark::kMicrosecond);

/// A new store each time: the context from the last anchor, without an index.
void tape_open_gigabyte_tail(benchmark::State& state) {
    const Directory& directory = gigabyte();
    const auto loop = [&]() -> Task<void> {
        for (auto _ : state) {
            const bub::Tape tape(std::make_shared<bub::FileTapeStore>(directory.options()), name);
            const JsonArray messages = co_await tape.context();
            if (messages.size() != 101) state.SkipWithError("wrong context");
        }
    };
    run(loop());
    state.counters["peak_MB"] = peak_megabytes();
}
BENCHMARK(tape_open_gigabyte_tail)->UseRealTime()->Unit(benchmark::kMicrosecond);

/// The first full access to a tape written by another program, which creates its index.
void tape_first_index_gigabyte(benchmark::State& state) {
    const Directory& directory = gigabyte();
    const double before = peak_megabytes();
    for (auto _ : state) {
        std::filesystem::remove(directory.file() + ".index");
        const bub::Tape tape(std::make_shared<bub::FileTapeStore>(directory.options()), name);
        benchmark::DoNotOptimize(run(tape.info()));
    }
    state.counters["grown_MB"] = peak_megabytes() - before;
}
BENCHMARK(tape_first_index_gigabyte)->Iterations(1)->UseRealTime()->Unit(benchmark::kMillisecond);

/// A new store each time, with the index: the summary and one append.
void tape_open_gigabyte(benchmark::State& state) {
    const Directory& directory = gigabyte();
    const auto loop = [&]() -> Task<void> {
        for (auto _ : state) {
            const bub::Tape tape(std::make_shared<bub::FileTapeStore>(directory.options()), name);
            const bub::TapeInfo info = co_await tape.info();
            if (info.last_anchor != "last") state.SkipWithError("wrong summary");
            co_await tape.append(entry());
        }
    };
    run(loop());
    state.counters["peak_MB"] = peak_megabytes();
}
BENCHMARK(tape_open_gigabyte)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace cubepi::bench
