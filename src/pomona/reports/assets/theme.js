// Light, dark, or as the system has it; the choice is kept where the browser lets us keep it.
const themes = { auto: "as the system has them", light: "light", dark: "dark" };

function showTheme(theme) {
  const button = document.getElementById("theme");
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  button.textContent = theme[0].toUpperCase() + theme.slice(1);
  button.setAttribute("aria-label", `Colours: ${themes[theme]}`);
  button.dataset.now = theme;
}

function keptTheme() {
  try {
    const kept = localStorage.getItem("pomona-theme");
    return kept in themes ? kept : "auto";
  } catch {
    return "auto"; // pages from disk have no storage in some browsers
  }
}

showTheme(keptTheme());
document.getElementById("theme").addEventListener("click", (event) => {
  const names = Object.keys(themes);
  const next = names[(names.indexOf(event.currentTarget.dataset.now) + 1) % names.length];
  showTheme(next);
  try {
    localStorage.setItem("pomona-theme", next);
  } catch {
    // then it holds until the page is closed
  }
});
