curl -s http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' -d '{
  "messages": [{"role": "user", "content": "Ada is 36 years old. Is she over thirty?"}],
  "choice": ["yes", "no"]
}'
