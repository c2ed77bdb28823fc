// Puts a button before each text that is there to be copied. Without scripts it can still be selected.
for (const text of document.querySelectorAll('.snippet')) {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'quiet';
  button.textContent = 'Copy';
  button.setAttribute('aria-live', 'polite');
  button.setAttribute('aria-describedby', text.getAttribute('aria-labelledby'));
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = 'Copied';
    } catch { // browsers let pages of this machine and of HTTPS copy, and no others
      getSelection().selectAllChildren(text);
      button.textContent = 'Selected: press Ctrl+C';
    }
  });
  text.before(button);
}
