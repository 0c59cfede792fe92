#include <cubepi/tracing/recorder/recorder_cache.hpp>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace cubepi::detail {
namespace {

using Cache = RecorderCache<std::string>;

Cache::Key key_of(std::string_view text, unsigned parts = 0) {
    Cache::Key key;
    key.values = {text, "b", "c"};
    key.parts = parts;
    return key;
}

TEST(RecorderCache, MakesTheRecordersOfAKeyOnce) {
    Cache cache;
    int made = 0;
    const auto get = [&](const Cache::Key& key) {
        std::string found;
        cache.use(
            key, [&] { return std::to_string(++made); },
            [&](const std::string& recorders) { found = recorders; });
        return found;
    };
    EXPECT_EQ(get(key_of("a")), "1");
    EXPECT_EQ(get(key_of("a")), "1");
    EXPECT_EQ(get(key_of("a", 1)), "2");
    EXPECT_EQ(get(key_of("x")), "3");
    EXPECT_EQ(get(key_of("a")), "1");
}

TEST(RecorderCache, RecordersBeyondTheLimitAreMadeEachTime) {
    Cache cache;
    int made = 0;
    for (int round = 0; round < 2; ++round) {
        for (int i = 0; i < 100; ++i) {
            const std::string text = std::to_string(i);
            cache.use(
                key_of(text),
                [&] {
                    ++made;
                    return text;
                },
                [&](const std::string& recorders) { EXPECT_EQ(recorders, text); });
        }
    }
    EXPECT_EQ(made, 100 + 36);
}

TEST(RecorderCache, ThreadsMayUseItAtOnce) {
    Cache cache;
    std::atomic<int> right = 0;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&] {
            for (int i = 0; i < 1000; ++i) {
                const std::string text = std::to_string(i % 40);
                cache.use(
                    key_of(text), [&] { return text; },
                    [&](const std::string& recorders) { right += recorders == text ? 1 : 0; });
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(right, 4000);
}

}  // namespace
}  // namespace cubepi::detail
