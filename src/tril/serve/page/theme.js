// The theme chosen before, set before anything is painted: not a module, which would run too late.
(() => {
  try {
    const theme = localStorage.getItem("tril-theme");
    if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage may be forbidden; then the theme is the system's.
  }
})();
