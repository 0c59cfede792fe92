// The link of a continued run to the suspended one, when the store is a file that another process opens (D26).

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/checkpoint/sqlite_checkpointer.hpp>
#include <cubepi/core/scoped_test_directory.hpp>
#include <cubepi/hitl/suspension_test_support.hpp>
#include <cubepi/tracing/traced_test.hpp>

namespace cubepi {
namespace {

using namespace tracing_test;

std::shared_ptr<Checkpointer> open_store(const std::string& file) {
    return std::make_shared<SQLiteCheckpointer>(file);
}

TEST(StoredLink, D26_SuspendedRun_LinkIsInTheStore) {
    const ScopedTestDirectory directory;
    const std::string file = (directory.path() / "threads.sqlite").string();
    std::vector<std::string> effects;
    FauxProvider faux = answering({hitl_test::calling({hitl_test::rm_call("a", "c1")}), "done"});
    Traced first;
    Traced second;
    {
        hitl_test::Process process(open_store(file), faux, effects);
        const TraceAttachment attachment = first.tracer->attach(*process.agent);
        EXPECT_EQ(process.prompt_and_detach().outcome, RunOutcome::suspended);
    }
    {
        hitl_test::Process process(open_store(file), faux, effects);
        const TraceAttachment attachment = second.tracer->attach(*process.agent);
        const Json denied = hitl_test::deny("no");
        EXPECT_EQ(process.respond("c1", denied).outcome, RunOutcome::completed);
    }
    const auto continued = second.span("invoke_agent");
    ASSERT_EQ(continued->links.size(), 1u);
    EXPECT_EQ(continued->links[0].context.span_id, first.span("invoke_agent")->context.span_id);
    EXPECT_TRUE(effects.empty());
}

}  // namespace
}  // namespace cubepi
