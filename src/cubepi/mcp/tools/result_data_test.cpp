// Sounds and other data of results, which are stored.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/mcp/tools/result_data.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ResultData : public ::testing::Test {
protected:
    /// Returns the text of the result of a call.
    std::string stored(const std::string& content) {
        JsonObject result;
        result["content"] = parse_json(content);
        auto store = std::make_shared<McpDataStore>(
            [this](const std::string& tool, const std::string& type, const std::string& bytes) {
                if (is_full) throw Error(ErrorCode::storage_full, "no space");
                files.push_back(tool + " " + type + " " + bytes);
                return "It is in /spill/" + std::to_string(files.size()) + ".";
            });
        detail::McpDataLocation place{std::move(store), "mcp__s__speak", Runtime::standard()};
        run(detail::store_data_of(&result, std::move(place)));
        return mcp_tool_result("s", result, 100'000).text();
    }

    std::vector<std::string> files;
    bool is_full = false;
};

TEST_F(ResultData, D203_Sound_IsStoredAndNamed) {
    EXPECT_EQ(stored(R"([{"type":"audio","data":"aGVsbG8=","mimeType":"audio/wav"}])"),
              "[audio, audio/wav, 5 bytes. It is in /spill/1.]");
    EXPECT_THAT(files, ElementsAre("mcp__s__speak audio/wav hello"));
}

TEST_F(ResultData, D203_EmbeddedData_IsStoredToo) {
    EXPECT_EQ(stored(R"([{"type":"text","text":"Here."},
                         {"type":"resource","resource":{"uri":"a://b","mimeType":"application/zip","blob":"AAE="}}])"),
              "Here.[resource a://b, application/zip, 2 bytes. It is in /spill/1.]");
}

TEST_F(ResultData, D203_OtherContent_StaysAsItIs) {
    const std::string text = stored(
        R"([{"type":"image","data":"aGk=","mimeType":"image/png"}, {"type":"audio","data":"?","mimeType":"audio/wav"},
            {"type":"resource","resource":{"uri":"a://b","text":"inside"}}, 7])");
    EXPECT_TRUE(files.empty());
    EXPECT_THAT(text, HasSubstr("audio that cannot be shown"));
    EXPECT_THAT(text, HasSubstr("inside"));
}

TEST_F(ResultData, D203_FullStore_LeavesTheDescription) {
    is_full = true;
    EXPECT_THAT(stored(R"([{"type":"audio","data":"aGk=","mimeType":"audio/wav"}])"),
                HasSubstr("audio that cannot be shown: audio/wav"));
}

TEST_F(ResultData, D203_ManySounds_AreStoredUpToALimit) {
    std::string content = "[";
    for (int i = 0; i < 40; ++i)
        content += std::string(i == 0 ? "" : ",") +
                   R"({"type":"audio","data":"aGk=","mimeType":"audio/wav"})";
    (void)stored(content + "]");
    EXPECT_EQ(files.size(), 16U);
}

}  // namespace
}  // namespace cubepi
