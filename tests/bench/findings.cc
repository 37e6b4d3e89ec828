#include "tests/bench/findings.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

namespace cellbatch {
namespace {

// One JSON object a line.
void Tell(std::FILE* to, const nlohmann::json& what) {
  const std::string line = what.dump() + "\n";
  std::fwrite(line.data(), 1, line.size(), to);
  std::fflush(to);
}

void Repeat(const nlohmann::json& what, Report& report) {
  if (what.contains("text")) report.Text(what["text"]);
  if (what.contains("fact")) report.Fact(what["fact"], what["value"]);
  if (!what.contains("figure")) return;
  Quartiles q;
  const bool known = what.contains("low");
  if (known) q = {what["low"], what["value"], what["high"]};
  report.Figure(what["figure"], what["value"], what["unit"], known ? &q : nullptr);
}

}  // namespace

void Findings::Text(const std::string& text) { Tell(to_, {{"text", text}}); }

void Findings::Fact(const std::string& name, const std::string& value) {
  Tell(to_, {{"fact", name}, {"value", value}});
}

void Findings::Figure(const std::string& name, double value, const std::string& unit,
                      const Quartiles* quartiles) {
  nlohmann::json figure = {{"figure", name}, {"value", value}, {"unit", unit}};
  if (quartiles != nullptr) figure["low"] = quartiles->low, figure["high"] = quartiles->high;
  Tell(to_, figure);
}

bool RunInChild(Report& report, const std::function<bool(Findings&)>& work) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) std::abort();
  if (child == 0) {
    close(ends[0]);
    Findings findings(fdopen(ends[1], "w"));
    _exit(work(findings) ? 0 : 1);  // no library's farewell: some wait for threads of theirs
  }
  close(ends[1]);
  std::FILE* const from = fdopen(ends[0], "r");
  char* line = nullptr;
  size_t room = 0;
  while (getline(&line, &room, from) > 0) Repeat(nlohmann::json::parse(line), report);
  std::free(line);
  std::fclose(from);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    report.Text("THE MEASURING PROCESS DIED: " + std::string(strsignal(WTERMSIG(status))) +
                "; what it had not told by then is missing\n");
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace cellbatch
