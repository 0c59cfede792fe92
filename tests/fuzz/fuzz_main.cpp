// The modes of a fuzz target other than libFuzzer's search:
//   cubepi_fuzz_sse DIRECTORY...   every file once (only in builds without libFuzzer)
//   cubepi_fuzz_sse --fixed RUNS SECONDS NOTE WORDS DIRECTORY
//                                  the files, then RUNS fixed inputs, for at most SECONDS
// NOTE is a file with the current input: its length in 8 bytes, then its bytes. It remains if the process dies.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixed_inputs.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using cubepi_fuzz::FixedInputs;

void run(const std::string& input) {
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

/// The content of all files below `directory`, in the order of their names.
std::vector<std::string> files_of(const char* directory) {
    std::vector<std::filesystem::path> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
        if (entry.is_regular_file()) names.push_back(entry.path());
    }
    std::sort(names.begin(), names.end());
    std::vector<std::string> files;
    for (const auto& name : names) {
        std::ifstream file(name, std::ios::binary);
        files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    return files;
}

/// The words of a dictionary of libFuzzer: lines of "word", with \\, \" and \xAB in it.
std::vector<std::string> words_of(const char* name) {
    std::vector<std::string> words;
    std::ifstream file(name);
    for (std::string line; std::getline(file, line);) {
        const std::size_t begin = line.find('"');
        const std::size_t end = line.rfind('"');
        if (line.starts_with('#') || begin == end) continue;
        std::string word;
        for (std::size_t i = begin + 1; i < end; ++i) {
            if (line[i] == '\\' && line[i + 1] == 'x') {
                word += static_cast<char>(std::stoi(line.substr(i + 2, 2), nullptr, 16));
                i += 3;
            } else {
                if (line[i] == '\\') ++i;
                word += line[i];
            }
        }
        words.push_back(word);
    }
    return words;
}

/// A note of the current input, in a mapped file: writing it is free, and it remains if the program dies.
class Note {
public:
    explicit Note(const char* name) {
        const int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
        if (file < 0 || ftruncate(file, size) != 0) std::abort();
        void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (memory == MAP_FAILED) std::abort();
        memory_ = static_cast<char*>(memory);
        close(file);
    }

    void write(const std::string& input) {
        const std::uint64_t length = std::min(input.size(), size - sizeof(std::uint64_t));
        std::memcpy(memory_, &length, sizeof(length));
        std::memcpy(memory_ + sizeof(length), input.data(), length);
    }

private:
    static constexpr std::size_t size = 1 << 20;
    char* memory_ = nullptr;
};

int run_fixed(long runs, long seconds, const char* note_name, const char* words,
              const char* directory) {
    constexpr unsigned seconds_for_one = 60;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    const std::vector<std::string> corpus = files_of(directory);
    const std::vector<std::string> dictionary = words_of(words);
    if (corpus.empty() || dictionary.empty()) {
        std::cerr << "no files in " << directory << ", or no words in " << words << '\n';
        return 2;
    }
    Note note(note_name);
    const auto run_noted = [&](const std::string& input) {
        note.write(input);
        alarm(seconds_for_one);
        run(input);
    };
    for (const std::string& input : corpus) run_noted(input);
    FixedInputs inputs(corpus, dictionary);
    long done = 0;
    while (done < runs && std::chrono::steady_clock::now() < end) {
        run_noted(inputs.next());
        ++done;
    }
    alarm(0);
    std::cout << done << " of " << runs << " inputs\n";
    return 0;
}

}  // namespace

/// libFuzzer calls this function first.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
    char** const words = *argv;
    if (*argc != 7 || std::strcmp(words[1], "--fixed") != 0) return 0;
    std::exit(run_fixed(std::atol(words[2]), std::atol(words[3]), words[4], words[5], words[6]));
}

/// Weak: libFuzzer's own function replaces it if linked.
__attribute__((weak)) int main(int argc, char** argv) {
    LLVMFuzzerInitialize(&argc, &argv);
    std::size_t count = 0;
    for (int i = 1; i < argc; ++i) {
        for (const std::string& input : files_of(argv[i])) {
            run(input);
            ++count;
        }
    }
    std::cout << count << " inputs\n";
    return count == 0 ? 1 : 0;
}
