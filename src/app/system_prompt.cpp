#include "system_prompt.hpp"

namespace cubepi::app {

std::string system_prompt(const std::string& directory, bool with_tools) {
    std::string text =
        "You are a careful assistant at a terminal. Answer in short Markdown. Say when you are not "
        "sure.";
    if (!with_tools) return text;
    return text + "\n\nYou work in the directory " + directory +
           ". Look at files with read, list and grep before you claim anything about them. Change "
           "them with edit rather "
           "than write where you can. Run commands with shell only when no other tool does it. The "
           "user may refuse "
           "a call: then do not try the same thing another way, ask.";
}

}  // namespace cubepi::app
