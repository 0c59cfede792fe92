#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <bub/schedule/schedule.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>

// The cases of every store of schedules.

namespace bub::schedule_tests {

inline Schedule schedule(const std::string& id, std::int64_t next,
                         const std::string& session = "telegram:42") {
    Schedule made;
    made.id = id;
    made.session = session;
    made.text = "check the build \"\xC3\xA9\" \\";
    made.times.kind = ScheduleKind::every;
    made.times.start = next - 60;
    made.times.interval = 60;
    made.times.zone = "UTC";
    made.origin = JsonObject{
        {"channel", "telegram"}, {"chat_id", "42"}, {"context", JsonObject{{"sender_id", "42"}}}};
    made.next = next;
    return made;
}

inline std::vector<std::string> ids_of(const std::vector<Schedule>& schedules) {
    std::vector<std::string> ids;
    for (const Schedule& one : schedules) ids.push_back(one.id);
    return ids;
}

using Ids = std::vector<std::string>;

inline void run_cases(const std::shared_ptr<ScheduleStore>& store) {
    using cubepi::run;
    const std::int64_t now = run(store->now());
    EXPECT_TRUE(run(store->list("")).empty());
    EXPECT_FALSE(run(store->find("one")));
    EXPECT_FALSE(run(store->remove("one")));
    // Ids are unique, and the first one stays.
    EXPECT_TRUE(run(store->add(schedule("one", now))));
    EXPECT_FALSE(run(store->add(schedule("one", now + 7))));
    EXPECT_EQ(run(store->find("one"))->next, now);
    EXPECT_EQ(run(store->find("one"))->text, schedule("one", now).text);
    // Lists are those of a session, or of all.
    EXPECT_TRUE(run(store->add(schedule("two", now + 86'400, "http:s1"))));
    EXPECT_EQ(ids_of(run(store->list("telegram:42"))), Ids{"one"});
    EXPECT_EQ(ids_of(run(store->list(""))), (Ids{"one", "two"}));
    // Only what is planned for now is due.
    EXPECT_EQ(ids_of(run(store->due({})).schedules), Ids{"one"});
    // A firing is recorded once, by the gateway that has read the same plan.
    Schedule fired = schedule("one", now + 86'400);
    fired.last = now;
    EXPECT_FALSE(run(store->advance(fired, now - 1)));
    EXPECT_TRUE(run(store->advance(fired, now)));
    EXPECT_FALSE(run(store->advance(fired, now)));
    EXPECT_TRUE(run(store->due({})).schedules.empty());
    EXPECT_EQ(run(store->find("one"))->last, now);
    // One whose last firing is in the future was fired by a clock that was wrong.
    fired.last = now + 86'400 * 365;
    EXPECT_TRUE(run(store->advance(fired, now + 86'400)));
    EXPECT_EQ(ids_of(run(store->due({})).schedules), Ids{"one"});
    // One whose only firing was accepted is to be removed, unless it has a problem to show.
    fired.next.reset();
    fired.last = now;
    EXPECT_TRUE(run(store->advance(fired, now + 86'400)));
    EXPECT_EQ(ids_of(run(store->due({})).schedules), Ids{"one"});
    fired.problem = "missed";
    EXPECT_TRUE(run(store->advance(fired, std::nullopt)));
    EXPECT_TRUE(run(store->due({})).schedules.empty());
    EXPECT_TRUE(run(store->remove("one")));
    EXPECT_FALSE(run(store->remove("one")));
    EXPECT_FALSE(run(store->advance(fired, std::nullopt)));
    // A session has a limit; configured ones do not count.
    for (std::size_t i = 0; i < max_session_schedules; ++i)
        EXPECT_TRUE(run(store->add(schedule("s" + std::to_string(i), now + 60, "s"))));
    EXPECT_THROW((void)run(store->add(schedule("more", now + 60, "s"))), cubepi::Error);
    Schedule configured = schedule("configured", now + 60, "s");
    configured.configured = true;
    EXPECT_TRUE(run(store->add(configured)));
    // Ids, texts and sessions from outside are checked.
    for (const std::string& id :
         {std::string(), std::string("../x"), std::string("a\0b", 3), std::string(65, 'x')})
        EXPECT_THROW((void)run(store->add(schedule(id, now))), cubepi::Error);
    Schedule text = schedule("text", now);
    text.text = std::string(longest_schedule_text + 1, 'x');
    EXPECT_THROW((void)run(store->add(text)), cubepi::Error);
    text.text = std::string("nul \0 in it", 11);
    text.session = std::string("telegram:\0'; DROP", 17);
    EXPECT_TRUE(run(store->add(text)));
    EXPECT_EQ(run(store->find("text"))->text, text.text);
    EXPECT_EQ(ids_of(run(store->list(text.session))), Ids{"text"});
    EXPECT_FALSE(run(store->find(std::string("a\0b", 3))));
    // The configuration replaces the configured ones only, and leaves what did not change as it is.
    Schedule changed = schedule("other", now + 60, "s");
    changed.configured = true;
    run(configure_schedules(store, {configured, changed}));
    configured.next = now + 999;
    changed.text = "another text";
    run(configure_schedules(store, {configured, changed}));
    EXPECT_EQ(run(store->find("configured"))->next, now + 60);
    EXPECT_EQ(run(store->find("other"))->text, "another text");
    run(configure_schedules(store, {}));
    EXPECT_FALSE(run(store->find("other")));
    EXPECT_TRUE(run(store->find("s0")));
}

}  // namespace bub::schedule_tests
