#include "attack.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <utility>

#include <gtest/gtest.h>

#include "source_tree.hpp"

namespace cubepi::attack {

namespace {

constexpr std::uint64_t standard_seed = 11;

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::uint64_t seed() { return setting("CUBEPI_ATTACK_SEED", standard_seed); }

struct Score {
    std::size_t tried = 0;
    std::size_t held = 0;
};

/// All rows of this process, by area and attack.
class Table {
public:
    void add(const std::string& area, const std::string& attack, Score score) {
        const std::lock_guard lock(mutex_);
        Score& sum = rows_[{area, attack}];
        sum.tried += score.tried;
        sum.held += score.held;
    }

    std::string markdown() const {
        const std::lock_guard lock(mutex_);
        std::string text = "| area | attack | tried | held |\n|---|---|---|---|\n";
        for (const auto& [name, score] : rows_) {
            text += "| " + name.first + " | " + name.second + " | " + std::to_string(score.tried) +
                    " | " + std::to_string(score.held) + " |\n";
        }
        return text;
    }

private:
    mutable std::mutex mutex_;
    std::map<std::pair<std::string, std::string>, Score> rows_;
};

Table& table() {
    static Table rows;
    return rows;
}

class PrintTable final : public ::testing::Environment {
public:
    void TearDown() override {
        const std::string text = table().markdown();
        std::printf("seed %llu\n%s", static_cast<unsigned long long>(seed()), text.c_str());
        if (const char* file = std::getenv("CUBEPI_ATTACK_TABLE")) std::ofstream(file) << text;
        if (is_standard_run()) {
            EXPECT_EQ(without_sandbox(documented_table()), without_sandbox(text))
                << "docs/security.md has another table";
        }
    }

private:
    /// Every attack was made, as often as without settings.
    static bool is_standard_run() {
        return GTEST_FLAG_GET(filter) == "*" && seed() == standard_seed && rounds(1) == 1 &&
               !std::getenv("GTEST_TOTAL_SHARDS");
    }

    /// Leaves out the rows of the sandbox, whose numbers depend on the kernel and the user.
    static std::string without_sandbox(const std::string& table) {
        std::istringstream lines(table);
        std::string rest;
        for (std::string line; std::getline(lines, line);) {
            if (!line.starts_with("| sandbox |")) rest += line + "\n";
        }
        return rest;
    }

    static std::string documented_table() {
        std::ifstream page(cubepi::testing::source_path("docs/security.md"));
        std::string table;
        for (std::string line; std::getline(page, line);) {
            const bool in_table = !table.empty() && line.starts_with('|');
            if (in_table || line.starts_with("| area |")) table += line + "\n";
        }
        return table;
    }
};

const ::testing::Environment* const print_table =
    ::testing::AddGlobalTestEnvironment(new PrintTable);

}  // namespace

std::size_t rounds(std::size_t standard) {
    return standard * std::max<std::size_t>(1, setting("CUBEPI_ATTACK_FACTOR", 1));
}

std::mt19937_64 generator(std::string_view attack) {
    std::seed_seq words(attack.begin(), attack.end());
    std::uint32_t name = 0;
    words.generate(&name, &name + 1);
    return std::mt19937_64(seed() ^ (static_cast<std::uint64_t>(name) << 32U));
}

std::string altered(const std::string& text, std::mt19937_64& random) {
    std::string changed = text;
    const std::size_t at = random() % text.size();
    switch (random() % 6) {
        case 0: changed[at] = changed[at] == '0' ? '1' : '0'; break;
        case 1: changed.erase(at); break;
        case 2: changed += changed.substr(at); break;
        case 3: changed.insert(at, 1, '\0'); break;
        case 4: changed.insert(0, " "); break;
        default: changed[at] = static_cast<char>(random()); break;
    }
    return changed == text ? text + "0" : changed;
}

Row::Row(std::string area, std::string attack)
    : area_(std::move(area)), attack_(std::move(attack)) {}

Row::~Row() { table().add(area_, attack_, {tried_, held_}); }

void Row::attempt(bool held, std::string_view what) {
    count(held);
    if (!held) {
        ADD_FAILURE() << area_ << ", " << attack_ << ": not prevented (seed " << seed()
                      << "): " << what;
    }
}

void Row::count(bool held) {
    ++tried_;
    held_ += held ? 1 : 0;
}

}  // namespace cubepi::attack
