// What a hostile endpoint streams as an answer.
#include <cstddef>
#include <string>

#include <gtest/gtest.h>

#include <cubepi/core/error.hpp>
#include <cubepi/provider/message_assembler.hpp>

#include "attack.hpp"

namespace cubepi::attack {

TEST(AnswerAttack, FloodsOfToolCallsAreRefused) {
    Row row("answers", "more tool calls than the limit");
    for (const std::size_t more : {1UL, 10UL, 5000UL}) {
        MessageAssembler answer{AssistantMessage()};
        answer.start();
        bool refused = false;
        for (std::size_t i = 0; i < MessageAssembler::max_tool_calls + more && !refused; ++i) {
            try {
                answer.toolcall_start(SharedString(std::to_string(i)), SharedString("read"));
            } catch (const Error& error) {
                refused = error.code() == ErrorCode::too_large;
            }
        }
        row.attempt(refused, std::to_string(more) + " calls more than the limit");
    }
}

}  // namespace cubepi::attack
