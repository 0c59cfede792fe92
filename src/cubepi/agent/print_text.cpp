#include <cubepi/agent/print_text.hpp>

#include <iostream>
#include <string_view>

namespace cubepi {

namespace {

class TextPrinter {
public:
    explicit TextPrinter(std::ostream& stream) : stream_(&stream) {}

    void operator()(const AgentEvent& event) {
        if (const std::string_view* delta = event.text_delta()) {
            *stream_ << *delta << std::flush;
            in_text_ = true;
        } else if (in_text_ && event.type() == AgentEventType::message_end) {
            *stream_ << '\n' << std::flush;
            in_text_ = false;
        }
    }

private:
    std::ostream* stream_;
    bool in_text_ = false;
};

}  // namespace

AgentListener print_text(std::ostream& stream) { return AgentListener(TextPrinter(stream)); }

AgentListener print_text() { return print_text(std::cout); }

}  // namespace cubepi
