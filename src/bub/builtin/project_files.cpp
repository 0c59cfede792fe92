#include <bub/builtin/project_files.hpp>

#include <bub/builtin/plugin/project_file.hpp>
#include <bub/tape/file_tape_store.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/workspace/local_workspace.hpp>

namespace bub {

AgentsFile read_agents_file(const std::filesystem::path& workspace) {
    AgentsFile agents;
    try {
        cubepi::LocalWorkspace place(workspace,
                                     cubepi::WorkspacePolicy().read_only().without_links());
        const detail::ProjectFile file = detail::read_project_file(place, "AGENTS.md");
        agents.text = file.text;
        agents.size = file.size;
        if (file.is_cut()) {
            agents.text += "\n\n" + file.cut_note("AGENTS.md");
            agents.problem = "AGENTS.md has " + detail::size_text(file.size) +
                             "; only its first 64 KiB are loaded.";
        }
    } catch (const cubepi::Error& error) {
        if (error.code() != cubepi::ErrorCode::not_found)
            agents.problem = std::string("AGENTS.md is not loaded: ") + error.what();
    }
    return agents;
}

std::vector<SkillDirectory> skill_directories(const std::filesystem::path& workspace,
                                              bool with_user_skills,
                                              const std::vector<std::filesystem::path>& more) {
    std::vector<SkillDirectory> directories = {{workspace, ".agents/skills"},
                                               {workspace, ".agent/skills"}};
    if (with_user_skills) directories.push_back({home_directory() / ".agents" / "skills"});
    for (const auto& directory : more) directories.push_back({directory});
    return directories;
}

LoadedFiles loaded_files(const AgentsFile& agents, const FoundSkills& skills) {
    LoadedFiles loaded;
    if (!agents.text.empty()) loaded.summary = "AGENTS.md (" + detail::size_text(agents.size) + ")";
    if (const std::size_t count = skills.skills.size(); count > 0) {
        if (!loaded.summary.empty()) loaded.summary += ", ";
        loaded.summary += std::to_string(count) + (count == 1 ? " skill" : " skills");
    }
    if (!loaded.summary.empty()) loaded.summary.insert(0, "Loaded ");
    loaded.problems = skills.problems;
    if (!agents.problem.empty()) loaded.problems.insert(loaded.problems.begin(), agents.problem);
    return loaded;
}

LoadedFiles look_at_project_files(const std::filesystem::path& workspace, bool with_user_skills,
                                  const std::vector<std::filesystem::path>& more) {
    return loaded_files(read_agents_file(workspace),
                        find_skills(skill_directories(workspace, with_user_skills, more)));
}

}  // namespace bub
