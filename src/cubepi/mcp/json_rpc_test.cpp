#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/mcp/json_rpc.hpp>
#include <cubepi/schema/parse_json.hpp>

namespace cubepi {
namespace {

using Kind = RpcMessage::Kind;

ErrorCode code_of(const std::string& text) {
    try {
        (void)read_rpc_message(std::string_view(text));
    } catch (const Error& error) {
        return error.code();
    }
    return ErrorCode::unknown;
}

TEST(JsonRpc, Messages_SurviveTextAndBack) {
    JsonObject params;
    params["a"] = 1;
    const RpcMessage request =
        read_rpc_message(std::string_view(rpc_text(rpc_request(7, "m", params))));
    EXPECT_EQ(request.kind, Kind::request);
    EXPECT_EQ(request.id, Json(7));
    EXPECT_EQ(request.method, "m");
    EXPECT_EQ(request.params, params);
    const RpcMessage notification =
        read_rpc_message(std::string_view(rpc_text(rpc_notification("n", {}))));
    EXPECT_EQ(notification.kind, Kind::notification);
    EXPECT_FALSE(notification.has_params);
    const RpcMessage result = read_rpc_message(std::string_view(rpc_text(rpc_result("x", params))));
    EXPECT_EQ(result.kind, Kind::result);
    EXPECT_EQ(result.id, Json("x"));
    const RpcMessage error =
        read_rpc_message(std::string_view(rpc_text(rpc_error(nullptr, -32601, "no", 5))));
    EXPECT_EQ(error.kind, Kind::error);
    EXPECT_EQ(error.code, -32601);
    EXPECT_EQ(error.text, "no");
    EXPECT_EQ(error.data, Json(5));
}

TEST(JsonRpc, InvalidMessages_AreRejected) {
    EXPECT_EQ(code_of("{"), ErrorCode::parse);
    const std::vector<std::string> invalid = {
        "7",
        "[]",
        R"({"id":1,"method":"m"})",
        R"({"jsonrpc":"1.0","id":1,"method":"m"})",
        R"({"jsonrpc":"2.0","id":1,"method":7})",
        R"({"jsonrpc":"2.0","id":{},"method":"m"})",
        R"({"jsonrpc":"2.0","id":1.5,"method":"m"})",
        R"({"jsonrpc":"2.0","id":1,"method":"m","params":[1]})",
        R"({"jsonrpc":"2.0","id":1})",
        R"({"jsonrpc":"2.0","id":1,"result":{},"error":{}})",
        R"({"jsonrpc":"2.0","id":1,"result":7})",
        R"({"jsonrpc":"2.0","result":{}})",
        R"({"jsonrpc":"2.0","id":1,"error":7})",
        R"({"jsonrpc":"2.0","id":1,"error":{"code":"x"}})",
        R"({"jsonrpc":"2.0","id":1,"error":{"code":99999999999}})"};
    for (const std::string& text : invalid) EXPECT_EQ(code_of(text), ErrorCode::protocol) << text;
}

TEST(JsonRpc, Batch_EndsAtItsFirstInvalidMessage) {
    const std::string a = R"({"jsonrpc":"2.0","method":"a"})";
    EXPECT_EQ(read_rpc_messages("[" + a + "," + a + "]", 10).size(), 2U);
    EXPECT_EQ(read_rpc_messages("[" + a + ",7," + a + "]", 10).size(), 1U);
    EXPECT_THROW((void)read_rpc_messages("[7]", 10), Error);
    EXPECT_THROW((void)read_rpc_messages("[]", 10), Error);
}

TEST(JsonRpc, LongBatch_IsRejected) {
    const std::string a = R"({"jsonrpc":"2.0","method":"a"})";
    EXPECT_EQ(read_rpc_messages("[" + a + "," + a + "]", 2).size(), 2U);
    EXPECT_THROW((void)read_rpc_messages("[" + a + "," + a + "," + a + "]", 2), Error);
}

TEST(JsonRpc, Lines_AreFoundAtEveryBoundary) {
    const std::string stream = "one\ntwo\r\n\n\nthree\n";
    for (std::size_t split = 0; split <= stream.size(); ++split) {
        RpcLineReader reader(100);
        std::vector<std::string> lines;
        const std::vector<std::string> pieces = {stream.substr(0, split), stream.substr(split)};
        for (const std::string& piece : pieces) {
            reader.feed(piece);
            while (const auto line = reader.next()) lines.emplace_back(*line);
        }
        EXPECT_EQ(lines, (std::vector<std::string>{"one", "two", "three"})) << split;
    }
}

TEST(JsonRpc, LongLine_IsRejectedWithAndWithoutEnd) {
    RpcLineReader unfinished(10);
    EXPECT_THROW(unfinished.feed("0123456789ab"), Error);
    RpcLineReader finished(10);
    finished.feed("ok\n0123456789ab\n");
    EXPECT_EQ(finished.next(), "ok");
    EXPECT_THROW((void)finished.next(), Error);
}

}  // namespace
}  // namespace cubepi
